"""A plain object that stands in for the replica that a policy looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.replication.limits import Limits
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.progress import Progress

ME = 1
ISR, QUORUM = IsrPolicy(), QuorumPolicy()


@dataclass
class Picture:
    """A partition as broker 1, its leader, sees it."""

    durable_end_offset: int = 0
    progress: Mapping[int, Progress] = field(default_factory=dict)
    in_sync: tuple[int, ...] = (ME,)
    joining: tuple[int, ...] = ()
    high_watermark: int = 0
    min_in_sync: int = 1
    epoch_start_offset: int = 0
    me: int = ME
    uncounted: frozenset[int] = frozenset()
    limits: Limits = field(default_factory=Limits)

    @property
    def replicas(self) -> tuple[int, ...]:
        return (self.me, *self.progress)

    @property
    def maximal_in_sync(self) -> frozenset[int]:
        return frozenset((*self.in_sync, *self.joining))


def followers(**ends: int | None) -> dict[int, Progress]:
    """``b2=5``: broker 2 holds everything before 5; None: it has not fetched in this epoch."""
    found = {}
    for name, end in ends.items():
        progress = Progress(0)
        if end is not None:
            progress.fetched(end, 1 << 40, 0)
        found[int(name[1:])] = progress
    return found
