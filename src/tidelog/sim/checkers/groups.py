"""A group of several members: the owners of its partitions, its position, and what it has consumed.

No partition belongs to two members of one generation; the next owner finds what was committed
(:mod:`.offsets`); every record has been consumed at least once.

In the consumer protocol (KIP-848) there are no generations: a partition is given to another member only when
its last one has revoked it, or was silent for a session.
"""

from collections.abc import Callable, Container, Iterable

from tidelog.sim.checkers.batches import Entry
from tidelog.sim.checkers.offsets import CommittedOffsets
from tidelog.sim.checkers.violation import Violation

SESSION_SHARE = 0.9  # Clocks drift.


class GroupChecker:
    def __init__(
        self, name: str, topic: str, is_given_up: Callable[[], bool], session_ms: float = 0.0
    ) -> None:
        self.name = name
        self.topic = topic
        self.session_ms = session_ms  # of the consumer protocol
        self.is_given_up = is_given_up  # whether the coordinators' log has lost something
        self._generation = -1  # the newest known
        self._owners: dict[tuple[int, int], str] = {}  # (generation, partition) → member
        self._offsets: dict[int, CommittedOffsets] = {}
        self._consumed: dict[int, set[int]] = {}
        self._holders: dict[int, str] = {}  # partition → member, by the consumer protocol
        self._heard_ms: dict[str, float] = {}  # when a member sent its last heartbeat that was answered
        self._dead: set[str] = set()

    def offsets(self, partition: int) -> CommittedOffsets:
        if partition not in self._offsets:
            self._offsets[partition] = CommittedOffsets(f"{self.name} in {self.topic}-{partition}")
        return self._offsets[partition]

    def assigned(self, generation: int, member: str, partitions: Iterable[int]) -> None:
        """A member got its assignment."""
        self._generation = max(generation, self._generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member and not self.is_given_up():
                raise Violation(
                    f"{self.name}: in generation {generation} {self.topic}-{partition} belongs to {owner} "
                    f"and to {member}"
                )

    def is_over(self, generation: int) -> bool:
        """Whether a later one has begun: requests of this one must be refused from now on."""
        return generation < self._generation and not self.is_given_up()

    # --- the consumer protocol ------------------------------------------------------------------------------

    def heard(self, member: str, asked_ms: float) -> None:
        self._heard_ms[member] = asked_ms

    def died(self, member: str) -> None:
        self._dead.add(member)

    def released(self, member: str, kept: Container[int] | None) -> None:
        """A member has revoked everything but ``kept``; None: everything, because it was fenced."""
        for partition, holder in list(self._holders.items()):
            if holder == member and (kept is None or partition not in kept):
                del self._holders[partition]

    def taken(self, member: str, partition: int, now_ms: float) -> None:
        """A member was assigned a partition."""
        holder = self._holders.get(partition, member)
        silent_ms = now_ms - self._heard_ms.get(holder, now_ms)
        fenced = silent_ms >= SESSION_SHARE * self.session_ms
        if holder != member and holder not in self._dead and not fenced and not self.is_given_up():
            raise Violation(
                f"{self.name}: {self.topic}-{partition} was given to {member}, and {holder} has it, which "
                f"was heard {silent_ms:.0f} ms ago"
            )
        self._holders[partition] = member

    def is_of_another(self, partition: int, member: str) -> bool:
        """Whether another member has it: commits of this one must be refused from now on."""
        return self._holders.get(partition, member) != member and not self.is_given_up()

    def consumed(self, partition: int, offset: int) -> None:
        self._consumed.setdefault(partition, set()).add(offset)

    def check(self, partition: int, log: Iterable[Entry]) -> None:
        """``log``: all records at the end, when the group has reached it."""
        consumed = self._consumed.get(partition, set())
        missing = [entry.offset for entry in log if entry.offset not in consumed]
        if missing and not self.is_given_up():
            raise Violation(f"{self.name}: {missing[:5]} of {self.topic}-{partition} were never consumed")
