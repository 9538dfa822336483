"""What the faults of a round may cost a topic: said beforehand in sentences, and as bounds to judge by.

Pure. Starts from the functions behind ``tidelog modes`` (:mod:`tidelog.planner.promises`,
:mod:`tidelog.planner.outages`), and adds time: which faults overlap, how long a failover may take.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.lab.faults.catalog import ADMINISTRATION, FAULTS
from tidelog.planner.outages import (
    CLIENTS,
    Line,
    Outage,
    leader_stays,
    line,
    reads_go_on,
    records_may_be_lost,
    writes_go_on,
)
from tidelog.planner.promises import RULES, Terms, losses

MARGIN_S = 2.0
"""For an election and the clients' search for the new leader, on a busy machine."""
RECOVERY_S = 30.0
"""From the end of a fault that stops writes until they go on: a broker starts, recovers its log, is found."""
RETURN_S = 3.0
"""A broker that was started again is still missing for so long."""
UNTIL_DECIDED = "Writes stop until an operator decides to give up what may be missing."

ENDED = frozenset({"kill", "stop", "restart", "wipe"})  # Their connections are closed.
_DEAD = frozenset({"kill", "stop", "freeze", "restart", "power-failure", "wipe"})
_RETURNING = _DEAD - {"freeze"}
_UNWRITABLE = frozenset({"full-disk", "failing-disk", "flipped-bit"})
_CUT = frozenset({"cut", "one-way-cut"})
_SLOW = frozenset({"slow-disk", "delay", "loss", "bandwidth"})


class Hit(NamedTuple):
    """One fault of a round, with the parties as they were; times in seconds of the round."""

    fault: str
    first: tuple[int, ...]  # CLIENTS for the clients
    second: tuple[int, ...] = ()  # of network faults
    leader: int = -1  # of the topic, when it happened; -1: none
    start_s: float = 0.0
    end_s: float | None = None  # None: until the end

    @property
    def brokers(self) -> frozenset[int]:
        return frozenset(each for each in self.first if each != CLIENTS)

    @property
    def lines(self) -> frozenset[Line]:
        return frozenset(line(one, other) for one in self.first for other in self.second)


class Setting(NamedTuple):
    """The topic and its surroundings, as far as promises depend on them."""

    terms: Terms
    replicas: tuple[int, ...]
    voters: tuple[int, ...]
    brokers: tuple[int, ...] = ()  # all there are
    acks: str = "all"
    is_idempotent: bool = True
    session_s: float = 1.5  # broker.session.timeout.ms
    lag_s: float = 10.0  # replica.lag.time.max.ms
    notices_ends: bool = True  # A process that ends is noticed by its closed connections.


class Promise(NamedTuple):
    sentences: tuple[str, ...]
    loss_reason: str  # why acknowledged records may be lost; "": they may not
    writes_s: float  # the longest time without an acknowledged write that is allowed
    writes_go_on: bool  # during the faults
    reads_go_on: bool
    commits_may_be_lost: bool  # committed offsets of groups
    needs_operator: bool = False  # The only copy may be destroyed: writes wait until someone gives it up.
    is_reachable: bool = False  # Clients reach the brokers that were hit, and hear from them where to go.


def promise(setting: Setting, hits: Sequence[Hit], end_s: float) -> Promise:
    """``end_s``: when the last fault is healed at the latest."""
    found = _interruptions(setting, hits, end_s)
    stops_s, reads, goes_on = found.stops_s, found.reads_go_on, found.stops_s == 0
    bound_s, bound_words = _bound(setting, hits, found.waits_for_late)
    allowed_s = bound_s if goes_on else stops_s + RECOVERY_S
    reason = _loss_reason(setting, hits)
    needs_operator = _needs_operator(setting, hits)
    brokers = setting.brokers or setting.replicas
    internal = setting._replace(terms=_internal_terms(brokers), replicas=brokers)
    sentences = (
        _about_loss(reason),
        _about_order(setting),
        UNTIL_DECIDED if needs_operator else _about_writes(goes_on, bound_s, bound_words),
        "Committed records stay readable." if reads else "No replica can be read during the fault.",
    )
    return Promise(
        sentences,
        reason,
        allowed_s,
        goes_on,
        reads,
        bool(_loss_reason(internal, hits)),
        needs_operator,
        all(map(_is_reachable, hits)),
    )


def _is_reachable(hit: Hit) -> bool:
    """Whether clients still reach those whom the fault hit."""
    return hit.fault not in _DEAD and CLIENTS not in (*hit.first, *hit.second)


def _internal_terms(brokers: tuple[int, ...]) -> Terms:
    """Offsets of groups are in an isr topic of their own: three replicas, two copies, not synced. Any brokers
    may hold them.
    """
    return Terms("isr", len(brokers), min_in_sync=min(2, len(brokers)))


# --- time ---------------------------------------------------------------------------------------------------


class _Interruptions(NamedTuple):
    stops_s: float = 0.0  # how long writes may stop altogether
    reads_go_on: bool = True
    waits_for_late: bool = False  # The leader stays, and waits for followers until they are left out.


def _interruptions(setting: Setting, hits: Sequence[Hit], end_s: float) -> _Interruptions:
    spans = [(hit, hit.start_s, _end_of(hit, end_s)) for hit in hits]
    moments = sorted({each for _, start, end in spans for each in (start, end)})
    found = _Interruptions()
    for start, end in pairwise(moments):
        active = [hit for hit, first, last in spans if first <= start < last]
        now = _outage(setting, active)
        stops = not writes_go_on(setting.terms, now) or _waits_for_slow(setting, active)
        late = any(hit.fault in _SLOW | _CUT for hit in active) and leader_stays(setting.terms, now)
        found = _Interruptions(
            found.stops_s + (end - start if stops else 0.0),
            found.reads_go_on and reads_go_on(setting.terms, now),
            found.waits_for_late or late,
        )
    return found


def _end_of(hit: Hit, end_s: float) -> float:
    end = max(hit.start_s, end_s if hit.end_s is None else hit.end_s)
    if hit.fault in _RETURNING:
        return end + RETURN_S
    # A moment has an effect, too: a replica goes offline, a seal is written.
    return end if end > hit.start_s else end + RETURN_S


def _outage(setting: Setting, active: Sequence[Hit]) -> Outage:
    first = next((hit.leader for hit in active if hit.leader in setting.replicas), setting.replicas[0])
    return Outage(
        setting.replicas,
        first,
        setting.voters,
        dead=_brokers(active, _DEAD),
        ended=_brokers(active, ENDED),
        unwritable=_brokers(active, _UNWRITABLE),
        cut=frozenset(each for hit in active if hit.fault in _CUT for each in hit.lines),
    )


def _brokers(hits: Iterable[Hit], faults: frozenset[str]) -> frozenset[int]:
    return frozenset(broker for hit in hits if hit.fault in faults for broker in hit.brokers)


def _waits_for_slow(setting: Setting, active: Sequence[Hit]) -> bool:
    """Whether every write waits for a slow replica. How slow that is depends on the fault: no bound is
    promised.
    """
    slow = [hit for hit in active if hit.fault in _SLOW]
    disks = frozenset(broker for hit in slow if not hit.second for broker in hit.brokers)
    lines = frozenset(each for hit in slow for each in hit.lines)
    leader = next((hit.leader for hit in slow if hit.leader in setting.replicas), setting.replicas[0])
    if leader in disks or line(leader, CLIENTS) in lines:
        return True
    late = [each for each in setting.replicas if each in disks or line(leader, each) in lines]
    return bool(late) and setting.terms.replicas - len(late) < setting.terms.copies


def _bound(setting: Setting, hits: Sequence[Hit], waits_for_late: bool) -> tuple[float, str]:
    """How long writes may pause although they go on, and what that consists of."""
    if any(FAULTS[hit.fault].group == ADMINISTRATION for hit in hits):
        return RECOVERY_S, "for a change by an operator"
    if setting.notices_ends and all(hit.fault in ENDED for hit in hits):
        return MARGIN_S, "for an election and the clients; closed connections show that a broker ended"
    shown, bound_s = "broker.session.timeout.ms", setting.session_s
    rule = RULES[setting.terms.mode]
    if waits_for_late and rule.leader_can_be_replaced and not rule.elects_itself:
        shown, bound_s = "replica.lag.time.max.ms", max(bound_s, setting.lag_s)
    return bound_s + MARGIN_S, f"{shown} is {bound_s:g} s, and {MARGIN_S:g} s for an election and the clients"


# --- loss ---------------------------------------------------------------------------------------------------


def _loss_reason(setting: Setting, hits: Sequence[Hit]) -> str:
    leader = next((hit.leader for hit in hits if hit.leader in setting.replicas), setting.replicas[0])
    struck = _brokers(hits, _DEAD | _UNWRITABLE) | frozenset(
        broker for hit in hits if hit.fault in _CUT for broker in (*hit.first, *hit.second)
    )
    if setting.acks == "0":
        return "acks=0: nothing is acknowledged by a broker"
    if setting.acks == "1" and not RULES[setting.terms.mode].acks_1_is_all and leader in struck:
        return RULES[setting.terms.mode].acks_1
    destroyed = _brokers(hits, frozenset({"wipe", "flipped-bit"}))
    unpowered = _brokers(hits, frozenset({"power-failure"}))
    if records_may_be_lost(
        setting.terms, setting.replicas, leader, destroyed=destroyed, without_power=unpowered
    ):
        clauses = losses(setting.terms)
        # The first clause is about disks, the second, if there is one, about power.
        return clauses[1] if unpowered and not destroyed and len(clauses) > 1 else clauses[0]
    if setting.terms.unclean and leader in struck and len(struck & set(setting.replicas)) > 1:
        return losses(setting.terms)[-1]
    return ""


def _needs_operator(setting: Setting, hits: Sequence[Hit]) -> bool:
    leader = next((hit.leader for hit in hits if hit.leader in setting.replicas), setting.replicas[0])
    destroyed = _brokers(hits, frozenset({"wipe"}))
    return records_may_be_lost(
        setting.terms, setting.replicas, leader, destroyed=destroyed, without_power=frozenset()
    )


# --- in words -----------------------------------------------------------------------------------------------


def _about_loss(reason: str) -> str:
    return f"Acknowledged records may be lost: {reason}." if reason else "No acknowledged record is lost."


def _about_order(setting: Setting) -> str:
    if setting.is_idempotent:
        return "No record is there twice, and the order is kept (idempotent producer)."
    return "Records may be there twice or in another order (producer without idempotence: at least once)."


def _about_writes(goes_on: bool, bound_s: float, bound_words: str) -> str:
    if goes_on:
        return f"Writes go on after {bound_s:g} s at most ({bound_words})."
    return f"Writes may stop during the fault, and go on within {RECOVERY_S:g} s after it."
