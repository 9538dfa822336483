"""A group of several members: whom its partitions belong to, where it is, and what it has consumed.

No partition belongs to two members of one generation; what was committed is what the next owner finds
(:mod:`.offsets`); every record has been consumed by somebody, at least once.
"""

from collections.abc import Callable, Iterable

from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.violation import Violation


class GroupChecker:
    def __init__(self, name: str, topic: str, is_given_up: Callable[[], bool]) -> None:
        self.name = name
        self.topic = topic
        self.is_given_up = is_given_up  # whether the coordinators' log has lost something
        self._generation = -1  # the newest anybody has heard of
        self._owners: dict[tuple[int, int], str] = {}  # (generation, partition) → member
        self._offsets: dict[int, CommittedOffsets] = {}
        self._consumed: dict[int, set[int]] = {}

    def offsets(self, partition: int) -> CommittedOffsets:
        if partition not in self._offsets:
            self._offsets[partition] = CommittedOffsets(f"{self.name} in {self.topic}-{partition}")
        return self._offsets[partition]

    def assigned(self, generation: int, member: str, partitions: Iterable[int]) -> None:
        """A member was told what belongs to it."""
        self._generation = max(generation, self._generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member and not self.is_given_up():
                raise Violation(
                    f"{self.name}: in generation {generation} {self.topic}-{partition} belongs to {owner} "
                    f"and to {member}"
                )

    def is_over(self, generation: int) -> bool:
        """Whether a later one has begun: what this one asks from now on must be refused."""
        return generation < self._generation and not self.is_given_up()

    def consumed(self, partition: int, offset: int) -> None:
        self._consumed.setdefault(partition, set()).add(offset)

    def check(self, partition: int, log: Iterable[Entry]) -> None:
        """``log``: all that is there in the end, when the group has reached it."""
        consumed = self._consumed.get(partition, set())
        missing = [entry.offset for entry in log if entry.offset not in consumed]
        if missing and not self.is_given_up():
            raise Violation(
                f"{self.name}: nobody ever consumed {missing[:5]} of {self.topic}-{partition}, and it went on"
            )
