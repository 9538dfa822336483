"""Replicas among themselves: who leads, what is committed, and whether all agree about it."""

from collections.abc import Callable

from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Role
from tidelog.sim.checkers.batches import Batch, batches_between
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.checkers.voters import VoterChecker
from tidelog.sim.world import World

ANYWHERE = 1 << 62
Name = Callable[[PartitionKey], str]


class ReplicaChecker:
    """Sees every role and every commit of every replica, whatever its mode."""

    def __init__(self, world: World, name: Name = str) -> None:
        self._world = world
        self._name = name
        self._voters = VoterChecker()
        self._leaders: dict[tuple[PartitionKey, int], int] = {}  # by epoch
        self._committed: dict[PartitionKey, dict[int, Batch]] = {}  # by base offset
        self._ends: dict[PartitionKey, int] = {}  # behind the last of them
        # The process that was seen last, its epoch and its watermark: a new process may begin further back.
        self._seen: dict[tuple[PartitionKey, int], tuple[Hosted, int, int]] = {}
        self._damaged: dict[tuple[PartitionKey, int], int] = {}  # from where on a node may drop records

    def role_changed(self, hosted: Hosted) -> None:
        """One leader per partition and epoch, ever; epochs only rise.

        Two leaders of one epoch could both commit, each with its own half of the replicas.
        """
        replica, key = hosted.replica, hosted.key
        process, epoch, watermark = self._last_seen(hosted)
        if process is hosted and replica.epoch < epoch:
            raise Violation(
                f"{self._name(key)}: node {replica.me} went back from epoch {epoch} to {replica.epoch}"
            )
        if process is not hosted:
            watermark = 0
        self._seen[(key, replica.me)] = hosted, replica.epoch, watermark
        if replica.role is not Role.LEADER:
            return
        self._world.note(f"{self._name(key)}: node {replica.me} leads epoch {replica.epoch}")
        known = self._leaders.setdefault((key, replica.epoch), replica.me)
        if known != replica.me:
            raise Violation(f"{self._name(key)}: epoch {replica.epoch} is led by {known} and by {replica.me}")

    def committed(self, hosted: Hosted) -> None:
        """The watermark never goes back, and what was committed once is never anything else."""
        replica, key = hosted.replica, hosted.key
        self._world.note(f"{self._name(key)}: node {replica.me} watermark {replica.high_watermark}")
        process, _, before = self._last_seen(hosted)
        if process is not hosted:
            before = 0
        elif replica.high_watermark < before and not self._dropped_damage(hosted):
            raise Violation(
                f"{self._name(key)}: the watermark of node {replica.me} went back "
                f"from {before} to {replica.high_watermark}"
            )
        self._seen[(key, replica.me)] = hosted, replica.epoch, replica.high_watermark
        self._ends[key] = max(self._ends.get(key, 0), replica.high_watermark)
        self._voters.committed(hosted, self._name(key))
        known = self._committed.setdefault(key, {})
        for base_offset, batch in batches_between(hosted.log, before, replica.high_watermark):
            if known.setdefault(base_offset, batch) != batch:
                raise Violation(
                    f"{self._name(key)} offset {base_offset}: node {replica.me} takes {batch} for committed, "
                    f"before it was {known[base_offset]}"
                )

    def damaged(self, key: PartitionKey, node: int, offset: int) -> None:
        """The node's records from here on are not what was written: it may drop them, once, to fetch them
        again.
        """
        self._damaged[key, node] = offset

    def _dropped_damage(self, hosted: Hosted) -> bool:
        replica = hosted.replica
        return self._damaged.pop((hosted.key, replica.me), ANYWHERE) <= replica.high_watermark

    def _last_seen(self, hosted: Hosted) -> tuple[Hosted, int, int]:
        return self._seen.get((hosted.key, hosted.replica.me), (hosted, -1, 0))

    def forget(self, key: PartitionKey, floor: int) -> None:
        """Everything from ``floor`` on was given up under a fault that allows it: other records may take its
        place, and watermarks may go back that far.
        """
        known = self._committed.get(key, {})
        for base_offset in [base for base in known if known[base][0] > floor]:
            del known[base_offset]
        self._ends[key] = min(self._ends.get(key, 0), floor)
        self._voters.forget(key, floor)
        for (each, node), (hosted, epoch, watermark) in self._seen.items():
            if each == key:
                self._seen[each, node] = hosted, epoch, min(watermark, floor)

    def committed_end(self, key: PartitionKey) -> int:
        """Behind the last record that anybody took for committed."""
        return self._ends.get(key, 0)
