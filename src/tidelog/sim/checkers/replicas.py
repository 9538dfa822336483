"""What Tidelog promises, looked at from outside while a simulation runs.

Each checker sees roles and commits of every replica, and what clients were told; none of them asks the code
under test what it thinks.
"""

from tidelog.log.log import Log
from tidelog.protocol.batch import iterate
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Role
from tidelog.sim.world import World

Batch = tuple[int, int, int]
"""(next offset, leader epoch, CRC)"""


class Violation(AssertionError):
    """A promise was broken: what the whole simulator is looking for."""


class Checkers:
    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[tuple[PartitionKey, int], int] = {}
        self._committed: dict[PartitionKey, dict[int, Batch]] = {}
        self._watermarks: dict[tuple[PartitionKey, int], tuple[Hosted, int]] = {}
        self.given_up: dict[
            PartitionKey, int
        ] = {}  # offsets from which an unclean election may have lost records

    def role_changed(self, hosted: Hosted) -> None:
        """One leader per partition and epoch, ever."""
        replica = hosted.replica
        if replica.role is not Role.LEADER:
            return
        self._world.note(f"{_name(hosted.key)}: node {replica.me} leads epoch {replica.epoch}")
        known = self._leaders.setdefault((hosted.key, replica.epoch), replica.me)
        if known != replica.me:
            raise Violation(f"{_name(hosted.key)}: epoch {replica.epoch} is led by {known} and {replica.me}")

    def committed(self, hosted: Hosted) -> None:
        """The watermark never goes back, and below it all replicas are equal, for ever."""
        replica, key = hosted.replica, hosted.key
        self._world.note(f"{_name(key)}: node {replica.me} watermark {replica.high_watermark}")
        process, before = self._watermarks.get((key, replica.me), (hosted, 0))
        if process is hosted and replica.high_watermark < before and key not in self.given_up:
            raise Violation(
                f"the watermark of {replica.me} went back from {before} to {replica.high_watermark}"
            )
        self._watermarks[(key, replica.me)] = (hosted, replica.high_watermark)
        start = before if process is hosted else hosted.log.start_offset
        known = self._committed.setdefault(key, {})
        for base_offset, batch in batches_between(hosted.log, start, replica.high_watermark):
            if known.setdefault(base_offset, batch) != batch and key not in self.given_up:
                raise Violation(
                    f"{_name(key)} offset {base_offset}: {replica.me} committed {batch}, "
                    f"before it was {known[base_offset]}"
                )

    def is_committed(self, key: PartitionKey, base_offset: int) -> bool:
        return base_offset in self._committed.get(key, {})


def batches_between(log: Log, start: int, end: int) -> list[tuple[int, Batch]]:
    """The batches in a range of offsets, by base offset."""
    found = []
    offset = max(start, log.start_offset)
    while offset < end:
        data = memoryview(log.read(offset, 1 << 20, end, at_least_one_batch=True).read())
        for _, header in iterate(data):
            found.append((header.base_offset, (header.next_offset, header.leader_epoch, header.crc)))
            offset = header.next_offset
    return found


def _name(key: PartitionKey) -> str:
    return f"partition {key[1]}" if isinstance(key, tuple) else str(key)
