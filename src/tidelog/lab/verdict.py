"""Promise against observation: *kept*, *broken* or *allowed loss*. Pure.

A round is judged by its figures and by the promise for the faults that it had (:mod:`tidelog.lab.promise`). A
cell is as bad as its worst round.

============================================== ========== ==================================================
observed                                       verdict    except
============================================== ========== ==================================================
a broker ended by itself                       broken
acknowledged and lost, read and gone           broken     allowed loss, where the settings say so, for the
                                                          partition's replicas
visible in part (transactions)                 broken     the same
skipped by a consumer group                    broken     the same
committed offsets taken back                   broken     allowed loss, where the internal topic may lose
twice, out of order, at another offset         broken     not judged for producers without idempotence
writes stood still for longer than promised    broken     without what the client only waited
                                                          (:func:`cluster_stall_s`), and with an allowance for
                                                          a busy machine (:func:`noise_s`)
writes did not come back after the fault       broken     where an operator has to decide first
no broker served reads for longer than that    broken     judged only while there are writes to read
a group got nothing for longer than that       broken     the same, and with a margin for its coordinator
not all replicas in sync again                 broken     after damage to a disk: said, not judged
============================================== ========== ==================================================
"""

from collections.abc import Sequence, Set
from typing import NamedTuple

from tidelog.lab.experiment.model import Checks
from tidelog.lab.promise import RECOVERY_S, Hit, Promise, Setting
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Figures, Round

READ_MARGIN_S = 10.0
"""Consumers may lag so much behind writes that go on: a group has to find its coordinator again, too."""
REACHED_READ_MARGIN_S = 5.0
"""The same where clients reach the brokers that were hit, which should tell them where to go."""

SHOWN_BACK_OFF_S = 0.5
SHOWN_NOISE_S = 0.3
EXCHANGES = 3
"""Of a failover: the leader is missed, another is elected or appointed, clients find it."""
NOISE_MAX_S = 2.0
"""A busy machine excuses no more than this: beyond it, a verdict about time would mean nothing."""
BACK_OFF_MAX_S = 2.0
"""Of clients whose broker still answers, and should tell them where to go."""
_DAMAGE = frozenset({"full-disk", "failing-disk", "flipped-bit"})


class Judgement(NamedTuple):
    verdict: str
    sentence: str
    broken: tuple[str, ...] = ()  # one clause each


def judge(
    setting: Setting,
    promised: Promise,
    hits: Sequence[Hit],
    figures: Figures,
    checks: Checks = Checks(),  # noqa: B008 — frozen
    *,
    came_back: bool = True,
    late_s: float = 0.0,
    safe: Set[int] = frozenset(),
    ended: Sequence[int] = (),
) -> Judgement:
    """One round. ``came_back``: whether writes were acknowledged again after the faults. ``late_s``: how late
    the machine was at worst. ``safe``: partitions that may lose nothing, even if others of the topic may.
    ``ended``: brokers that ended by themselves.
    """
    noise = noise_s(late_s)
    broken = [
        *(f"broker {broker} ended by itself" for broker in ended),
        *_losses(promised, figures, safe),
        *_order(setting, figures),
        *_availability(promised, figures, noise),
        *_redundancy(promised, hits, figures),
        *_checks(checks, figures),
    ]
    if not came_back and not promised.needs_operator:
        broken.append(
            f"no write was acknowledged within {RECOVERY_S:g} s after the fault, when all was healed"
        )
    if not figures.acknowledged:
        broken.append("no write was acknowledged at all")
    if broken:
        return Judgement(BROKEN, f"Broken: {'; '.join(broken)}.", tuple(broken))
    lost = figures.lost or figures.vanished or figures.torn_transactions or figures.skipped
    if lost or figures.lost_commits:
        return Judgement(ALLOWED, _allowed_sentence(promised, figures))
    return Judgement(KEPT, _kept_sentence(promised, figures, noise))


def _losses(promised: Promise, figures: Figures, safe: Set[int]) -> list[str]:
    found = []
    if promised.loss_reason and (harmed := sorted(safe & set(figures.harmed))):
        numbers = ", ".join(map(str, harmed))
        found.append(f"records of partition {numbers} are missing, and only other partitions may lose some")
    if not promised.loss_reason:
        found += _counted(
            (figures.lost, "acknowledged record", "lost"),
            (figures.vanished, "record", "read by a consumer and gone later"),
            (figures.torn_transactions, "transaction", "visible in part"),
            (figures.skipped, "record", "skipped by a consumer group"),
        )
    if not promised.commits_may_be_lost:
        found += _counted((figures.lost_commits, "committed offset", "taken back"))
    return found


def _order(setting: Setting, figures: Figures) -> list[str]:
    if not setting.is_idempotent:
        return []
    return _counted(
        (figures.doubled, "record", "there twice"),
        (figures.disordered, "record", "out of order"),
        (figures.misplaced, "record", "at another offset than acknowledged"),
    )


def _counted(*rows: tuple[int, str, str]) -> list[str]:
    return [f"{amount(count, noun)} {what}" for count, noun, what in rows if count]


def amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cluster_stall_s(promised: Promise, figures: Figures) -> float:
    """The time without writes, without what the client spent waiting for its own timers. A client that still
    reaches its broker waits because of what that one answers, or does not: little of it is the client's own.
    """
    back_off_s = figures.client_back_off_s
    if promised.is_reachable:
        back_off_s = min(back_off_s, BACK_OFF_MAX_S)
    return max(0.0, figures.writes_stood_still_s - back_off_s)


def noise_s(late_s: float) -> float:
    """What a busy machine adds to the few exchanges of a failover."""
    return min(EXCHANGES * late_s, NOISE_MAX_S)


def _availability(promised: Promise, figures: Figures, noise: float) -> list[str]:
    found = []
    bound_s = promised.writes_s + noise
    stall = cluster_stall_s(promised, figures)
    if stall > bound_s and not promised.needs_operator:
        found.append(f"no write was acknowledged for {stall:.1f} s, and {bound_s:.1f} s were allowed")
    if not (promised.writes_go_on and promised.reads_go_on):
        return found
    margin_s = REACHED_READ_MARGIN_S if promised.is_reachable else READ_MARGIN_S
    for what, seen_s, most_s in (
        ("no broker served reads", figures.unserved_reads_s, bound_s),
        ("nothing was read", figures.reads_stood_still_s, bound_s + margin_s),
    ):
        if seen_s > most_s:
            found.append(f"{what} for {seen_s:.1f} s, and {most_s:.1f} s were allowed")
    return found


def _redundancy(promised: Promise, hits: Sequence[Hit], figures: Figures) -> list[str]:
    excused = promised.needs_operator or any(hit.fault in _DAMAGE for hit in hits)
    if figures.redundant_after_s is not None or excused:
        return []
    return ["not all replicas came back in sync after the last fault was healed"]


def _checks(checks: Checks, figures: Figures) -> list[str]:
    rows: tuple[tuple[float | None, float, str], ...] = (
        (checks.lost_max, figures.lost, "acknowledged records lost"),
        (checks.writes_stand_still_max_s, figures.writes_stood_still_s, "seconds without writes"),
        (checks.reads_stand_still_max_s, figures.reads_stood_still_s, "seconds without reads"),
    )
    return [
        f"{seen:,g} {what}, and the experiment allows {most:,g}"
        for most, seen, what in rows
        if most is not None and seen > most
    ]


def _allowed_sentence(promised: Promise, figures: Figures) -> str:
    lost = max(figures.lost, figures.vanished, figures.skipped)
    if not lost and not figures.torn_transactions:
        return (
            f"Allowed loss: {amount(figures.lost_commits, 'committed offset')} taken back; the topic of "
            "groups' offsets is not synced to disk."
        )
    torn = (
        f", {amount(figures.torn_transactions, 'transaction')} in part" if figures.torn_transactions else ""
    )
    return (
        f"Allowed loss: {amount(lost, 'record')} of {figures.acknowledged:,}{torn}, as documented: "
        f"{promised.loss_reason}."
    )


def _kept_sentence(promised: Promise, figures: Figures, noise: float) -> str:
    redundant = (
        f"; all replicas in sync {figures.redundant_after_s:.1f} s after the end of the fault"
        if figures.redundant_after_s is not None
        else "; not all replicas came back in sync"
    )
    return (
        f"Kept: nothing lost of {amount(figures.acknowledged, 'acknowledged record')}; "
        f"{_stall_words(promised, figures, noise)}{redundant}."
    )


def _stall_words(promised: Promise, figures: Figures, noise: float) -> str:
    if promised.needs_operator:
        bound = "until an operator decides"
    elif promised.writes_go_on:
        busy = f", {noise:.1f} s of that because the machine was busy" if noise >= SHOWN_NOISE_S else ""
        bound = f"{promised.writes_s + noise:.1f} s{busy}"
    else:
        bound = "as long as the fault"
    back_off = (
        f", {figures.client_back_off_s:.1f} s of that the client's own back-off"
        if figures.client_back_off_s >= SHOWN_BACK_OFF_S
        else ""
    )
    return f"writes stood still for {figures.writes_stood_still_s:.1f} s{back_off} (allowed: {bound})"


# --- several rounds -----------------------------------------------------------------------------------------

_SEVERITY = (NOT_RUN, KEPT, ALLOWED, BROKEN)


def overall(rounds: Sequence[Round], planned: int = 0) -> tuple[str, str]:
    """Verdict and sentence of a cell: those of its worst round, and how many rounds they rest on.
    ``planned``: how many there should be.
    """
    if not rounds:
        return NOT_RUN, "Not run."
    worst = max((each.verdict for each in rounds), key=_SEVERITY.index)
    same = [each for each in rounds if each.verdict == worst]
    shown = max(same, key=lambda each: (each.figures.lost, each.figures.writes_stood_still_s))
    missing = f"; only {len(rounds)} of {planned} rounds were run" if len(rounds) < planned else ""
    return worst, f"{shown.sentence} ({_basis(worst, len(same), len(rounds))}{missing})"


def _basis(verdict: str, same: int, total: int) -> str:
    if total == 1:
        return "1 round"
    if verdict == KEPT:
        return f"worst of {total} rounds"
    return f"{same} of {total} rounds"
