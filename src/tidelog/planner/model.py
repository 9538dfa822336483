"""What a set of faults does to one partition: the one function behind everything that Tidelog promises."""

from typing import NamedTuple

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.losses import loss
from tidelog.planner.outages import Line, Outage, line, reads_go_on, writes_go_on
from tidelog.planner.promises import LEADER, Terms


class Outcome(NamedTuple):
    """While all faults last; loss: whatever their order."""

    writes: bool  # acks=all writes are acknowledged, after a failover at most
    reads: bool  # Committed records can be read.
    loss: str  # why an acknowledged record may be lost; empty: none is lost
    is_slow: bool  # Writes wait for a slow leader.

    @property
    def order(self) -> bool:
        """The order within a partition changes only where records are given up."""
        return not self.loss


def outcome(terms: Terms, where: Placement, faults: Faults) -> Outcome:
    now = moment(where, faults)
    return Outcome(
        writes_go_on(terms, now),
        reads_go_on(terms, now),
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
        cut=_lines(where, faults.cut_off),
    )


def _lines(where: Placement, cut_off: frozenset[int]) -> frozenset[Line]:
    nodes = {*where.replicas, *where.controllers}
    return frozenset(line(one, other) for one in cut_off for other in nodes if other != one)
