"""What a set of faults does to one partition: the one function behind everything that Tidelog promises."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.losses import loss
from tidelog.planner.outages import CONTROLLERS, Line, Outage, leader_stays, line, reads_go_on, writes_go_on
from tidelog.planner.promises import LEADER, RULES, Terms


class Outcome(NamedTuple):
    """While all faults last; loss: whatever their order."""

    writes: bool  # acks=all writes are acknowledged, after a failover at most
    reads: bool  # Committed records can be read, whatever the order of the faults.
    loss: str  # why an acknowledged record may be lost; empty: none is lost
    is_slow: bool  # Writes wait for a slow leader.

    @property
    def order(self) -> bool:
        """The order within a partition changes only where records are given up."""
        return not self.loss


def outcome(terms: Terms, where: Placement, faults: Faults) -> Outcome:
    return Outcome(
        writes_go_on(terms, moment(where, faults)),
        _reads_go_on_in_any_order(terms, where, faults),
        loss(terms, where, faults),
        where.replicas[LEADER] in faults.slow,
    )


def moment(where: Placement, faults: Faults) -> Outage:
    """The faults at one moment, as lines that do not work and brokers that are down."""
    return Outage(
        where.replicas,
        where.replicas[LEADER],
        where.controllers,
        dead=faults.down,
        ended=faults.dead,
        slow=faults.slow,
        controllers_lost=faults.controllers_lost,
        controllers_silent=faults.controllers_silent,
        cut=_lines(where, faults.cut_off),
    )


def _reads_go_on_in_any_order(terms: Terms, where: Placement, faults: Faults) -> bool:
    """Also of the replicas: which of them is the first decides about the one that readers are sent to."""
    now = moment(where, faults)
    leaders = where.replicas if _may_have_moved(terms, now, faults) else (now.leader,)
    return all(
        reads_go_on(terms, now._replace(leader=leader, replicas=order))
        for leader in leaders
        for order in _rotated(where.replicas)
    )


def _rotated(replicas: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return (replicas[first:] + replicas[:first] for first in range(len(replicas)))


def _may_have_moved(terms: Terms, now: Outage, faults: Faults) -> bool:
    """Whether another replica may have led before the last fault, and was hit by it. Slow voters still vote:
    a leader that loses its majority to them may be replaced. One that is cut off does not hear of it, and
    names itself to readers.
    """
    rule = RULES[terms.mode]
    if not rule.leader_can_be_replaced:
        return False
    if not rule.elects_itself:
        return now.leader in faults.away
    is_outvoted = not faults.slow.isdisjoint(now.replicas) and not leader_stays(terms, now)
    return now.leader in faults.down or is_outvoted


def _lines(where: Placement, cut_off: frozenset[int]) -> frozenset[Line]:
    nodes = {*where.replicas, *(where.controllers or (CONTROLLERS,))}
    return frozenset(line(one, other) for one in cut_off for other in nodes if other != one)
