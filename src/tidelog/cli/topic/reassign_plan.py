"""Which replicas go where: a plan that spreads partitions over some brokers and moves as little as possible.

Pure: the present placement comes in, the wanted one goes out. The caller knows the cluster.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.cli.cluster.admin import Partition
from tidelog.cli.failure import CommandFailed
from tidelog.planner.faults import brokers_named


class Move(NamedTuple):
    topic: str
    partition: int
    before: list[int]
    after: list[int]  # the first one is preferred as leader

    @property
    def copied(self) -> list[int]:
        """Brokers that get a copy they do not have."""
        return [broker for broker in self.after if broker not in self.before]


def plan(
    partitions: Iterable[Partition],
    racks: Mapping[int, str | None],
    replicas: int | None = None,
    fenced: Collection[int] = (),
) -> list[Move]:
    """Spread these partitions evenly over the brokers of ``racks``; only those that have to change are named.

    ``replicas``: how many copies from now on; None for as many as there are. ``fenced``: brokers that were
    left out because they are not up, for words only.
    """
    wanted = list(partitions)
    most = max((replicas or len(each.replicas) for each in wanted), default=0)
    if most > len(racks):
        raise CommandFailed(f"{most} replicas need {most} brokers, and {_available(racks, fenced)}.")
    spread = _Spread(wanted, racks, replicas)
    moves = [
        Move(each.topic, each.partition, each.replicas, after)
        for each, after in zip(wanted, spread.assignments(), strict=True)
    ]
    return [move for move in moves if move.before != move.after]


def _available(racks: Collection[int], fenced: Collection[int]) -> str:
    if not fenced:
        return f"there are {len(racks)}"
    return (
        f"{brokers_named(sorted(fenced))} {'is' if len(fenced) == 1 else 'are'} fenced: `tidelog cluster "
        "status` says why. Or pass --to or --replicas"
    )


class _Spread:
    """Begins with what is there and may stay, fills the gaps, and evens out as long as that helps."""

    def __init__(
        self, partitions: Sequence[Partition], racks: Mapping[int, str | None], replicas: int | None
    ) -> None:
        self._racks = racks
        self._placed = [self._stay(each, replicas or len(each.replicas)) for each in partitions]
        self._held = Counter(broker for replicas in self._placed for broker in replicas)
        for each, placed in zip(partitions, self._placed, strict=True):
            self._fill(placed, replicas or len(each.replicas))

    def assignments(self) -> list[list[int]]:
        for placed in self._placed:
            while self._part_neighbours(placed):
                pass
        while self._even_out():
            pass
        led: Counter[int] = Counter()
        return [_led_evenly(placed, led) for placed in self._placed]

    def _stay(self, partition: Partition, size: int) -> list[int]:
        """Copies that need not move; of more than there should be, those that are in sync."""
        there = [broker for broker in partition.replicas if broker in self._racks]
        best = sorted(there, key=lambda broker: broker not in partition.in_sync)[:size]
        return [broker for broker in there if broker in best]

    def _fill(self, placed: list[int], size: int) -> None:
        while len(placed) < size:
            used = Counter(self._racks[broker] for broker in placed)
            free = [broker for broker in self._racks if broker not in placed]
            best = min(free, key=lambda broker: (used[self._racks[broker]], self._held[broker], broker))
            placed.append(best)
            self._held[best] += 1

    def _part_neighbours(self, placed: list[int]) -> bool:
        """Move one of two copies that share a rack to a rack without one."""
        used = Counter(self._racks[broker] for broker in placed)
        free = [broker for broker, rack in self._racks.items() if not used[rack]]
        crowded = [broker for broker in placed if used[self._racks[broker]] > 1]
        if not free or not crowded:
            return False
        self._replace(
            placed,
            max(crowded, key=lambda broker: self._held[broker]),
            min(free, key=lambda broker: (self._held[broker], broker)),
        )
        return True

    def _even_out(self) -> bool:
        """Move one copy from a broker that has many to one that has few."""
        by_load = sorted(self._racks, key=lambda broker: (self._held[broker], broker))
        for fewest in by_load:
            for most in reversed(by_load):
                if self._held[most] - self._held[fewest] < 2:
                    break
                for placed in self._placed:
                    if most in placed and fewest not in placed and self._may_replace(placed, most, fewest):
                        self._replace(placed, most, fewest)
                        return True
        return False

    def _may_replace(self, placed: list[int], old: int, new: int) -> bool:
        """Whether the copies would be on as many racks as before."""
        others = {self._racks[broker] for broker in placed if broker != old}
        return self._racks[new] not in others or self._racks[old] in others

    def _replace(self, placed: list[int], old: int, new: int) -> None:
        placed[placed.index(old)] = new
        self._held[old] -= 1
        self._held[new] += 1


def _led_evenly(placed: list[int], led: Counter[int]) -> list[int]:
    """The copy whose broker leads least comes first; the order of the others stays."""
    leader = min(placed, key=lambda broker: (led[broker], placed.index(broker)))
    led[leader] += 1
    return [leader, *(broker for broker in placed if broker != leader)]
