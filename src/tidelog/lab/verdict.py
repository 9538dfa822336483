"""Promise against observation: *kept*, *broken* or *allowed loss*. Pure.

A round is judged by its figures and by the promise for the faults that it had (:mod:`tidelog.lab.promise`). A
cell is as bad as its worst round.

============================================== ========== ==================================================
observed                                       verdict    except
============================================== ========== ==================================================
acknowledged and lost, read and gone           broken     allowed loss, where the settings say so
visible in part (transactions)                 broken     the same
committed offsets taken back                   broken     allowed loss, where the internal topic may lose
twice, out of order, at another offset         broken     not judged for producers without idempotence
writes stood still for longer than promised    broken     without what the client only waited, and with an
                                                          allowance for a busy machine (:func:`noise_s`)
writes did not come back after the fault       broken
reads stood still for longer than promised     broken     judged only while there are writes to read
not all replicas in sync again                 broken     after faults of disks: said, not judged
============================================== ========== ==================================================
"""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.lab.experiment.model import Checks
from tidelog.lab.faults.catalog import DISK, FAULTS
from tidelog.lab.promise import RECOVERY_S, Hit, Promise, Setting
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Figures, Round

READ_MARGIN_S = 10.0
"""Consumers may lag so much behind writes that go on: a group has to find its coordinator again, too."""

SHOWN_BACK_OFF_S = 0.5
EXCHANGES = 3
"""Of a failover: the leader is missed, another is elected or appointed, clients find it."""


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
) -> Judgement:
    """One round. ``came_back``: whether writes were acknowledged again after the faults."""
    broken = [
        *_losses(promised, figures),
        *_order(setting, figures),
        *_availability(promised, figures),
        *_redundancy(hits, figures),
        *_checks(checks, figures),
    ]
    if not came_back:
        broken.append(
            f"no write was acknowledged within {RECOVERY_S:g} s after the fault, when all was healed"
        )
    if not figures.acknowledged:
        broken.append("no write was acknowledged at all")
    if broken:
        return Judgement(BROKEN, f"Broken: {'; '.join(broken)}.", tuple(broken))
    lost = figures.lost or figures.vanished or figures.torn_transactions
    if lost or figures.lost_commits:
        return Judgement(ALLOWED, _allowed_sentence(promised, figures))
    return Judgement(KEPT, _kept_sentence(promised, figures))


def _losses(promised: Promise, figures: Figures) -> list[str]:
    found = []
    if not promised.loss_reason:
        found += _counted(
            (figures.lost, "acknowledged record", "lost"),
            (figures.vanished, "record", "read by a consumer and gone later"),
            (figures.torn_transactions, "transaction", "visible in part"),
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


def cluster_stall_s(figures: Figures) -> float:
    """The time without writes, without what the client spent waiting for its own timers."""
    return max(0.0, figures.writes_stood_still_s - figures.client_back_off_s)


def noise_s(figures: Figures) -> float:
    """What a busy machine adds to each of the few exchanges of a failover: as long as undisturbed writes took
    at worst.
    """
    return EXCHANGES * (figures.before.p999 or 0.0) / 1000


def _availability(promised: Promise, figures: Figures) -> list[str]:
    found = []
    writes_s = promised.writes_s + noise_s(figures)
    if (stall := cluster_stall_s(figures)) > writes_s:
        found.append(f"no write was acknowledged for {stall:.1f} s, and {writes_s:.1f} s were allowed")
    reads_s = writes_s + READ_MARGIN_S
    if promised.writes_go_on and promised.reads_go_on and figures.reads_stood_still_s > reads_s:
        found.append(
            f"nothing was read for {figures.reads_stood_still_s:.1f} s, and {reads_s:.1f} s were allowed"
        )
    return found


def _redundancy(hits: Sequence[Hit], figures: Figures) -> list[str]:
    if figures.redundant_after_s is not None or any(FAULTS[hit.fault].group == DISK for hit in hits):
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
    lost = max(figures.lost, figures.vanished)
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


def _kept_sentence(promised: Promise, figures: Figures) -> str:
    redundant = (
        f"; all replicas in sync {figures.redundant_after_s:.1f} s after the end of the fault"
        if figures.redundant_after_s is not None
        else "; not all replicas came back in sync"
    )
    return (
        f"Kept: nothing lost of {amount(figures.acknowledged, 'acknowledged record')}; "
        f"{_stall_words(promised, figures)}{redundant}."
    )


def _stall_words(promised: Promise, figures: Figures) -> str:
    bound = (
        f"{promised.writes_s + noise_s(figures):.1f} s" if promised.writes_go_on else "as long as the fault"
    )
    back_off = (
        f", {figures.client_back_off_s:.1f} s of that the client's own back-off"
        if figures.client_back_off_s >= SHOWN_BACK_OFF_S
        else ""
    )
    return f"writes stood still for {figures.writes_stood_still_s:.1f} s{back_off} (allowed: {bound})"


# --- several rounds -----------------------------------------------------------------------------------------

_SEVERITY = (NOT_RUN, KEPT, ALLOWED, BROKEN)


def overall(rounds: Sequence[Round]) -> tuple[str, str]:
    """Verdict and sentence of a cell: those of its worst round, and how many rounds they rest on."""
    if not rounds:
        return NOT_RUN, "Not run."
    worst = max((each.verdict for each in rounds), key=_SEVERITY.index)
    same = [each for each in rounds if each.verdict == worst]
    shown = max(same, key=lambda each: (each.figures.lost, each.figures.writes_stood_still_s))
    return worst, f"{shown.sentence} ({_basis(worst, len(same), len(rounds))})"


def _basis(verdict: str, same: int, total: int) -> str:
    if total == 1:
        return "1 round"
    if verdict == KEPT:
        return f"worst of {total} rounds"
    return f"{same} of {total} rounds"
