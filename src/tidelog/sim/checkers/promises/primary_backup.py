"""Mode ``primary-backup``. An acknowledgement means: on the primary and ``copies - 1`` backups
(``min.insync.replicas``; one copy is the asynchronous form). When an acknowledged record may be lost:

====================== ====================================================================================
topic                  acknowledged records may be lost when
====================== ====================================================================================
by default             the primary and ``copies - 1`` backups have lost power, and so possibly the unsynced
                       ends of their logs, and none of them has restored meanwhile what it lost; with one copy
                       the primary alone is enough
``flush.messages=1``   the same, but for lost disks instead of lost power
degradation allowed    as with one copy
an operator forces it  the new primary lacks them then
====================== ====================================================================================

A damaged replica counts as one that lost everything from the damage on. What was acknowledged after the
damage is there until the replica drops it.

Lost records are restored: by a backup when it has caught up, by a primary before it leads. Tracked from
outside: which machines lost power, what was left on their disks, and which replicas restored it.
"""

from collections.abc import Set as AbstractSet

from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.controller.successions import acting_leader, is_restoring
from tidelog.log.log import Log
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.batches import batches_between
from tidelog.sim.checkers.promises.losses import stays_decided
from tidelog.sim.checkers.promises.place import Key, Place
from tidelog.sim.checkers.promises.promise import Promise, Surroundings
from tidelog.sim.checkers.violation import Violation

COPIES = "min.insync.replicas"


class PrimaryBackupPromise(Promise):
    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._judged: dict[Key, tuple[int, dict[int, int], int]] = {}  # copies, who lost what, at which loss
        self._copies: dict[Key, int] = {}  # the fewest copies that were ever enough

    def is_whole(self, place: Place) -> bool:
        partition = place.partition
        return acting_leader(partition) >= 0 and set(partition.in_sync) == set(partition.replicas)

    def can_do_without(self, place: Place, node: int) -> bool:
        """With one copy, an operator would have to decide about records that only the primary had."""
        partition = place.partition
        return len(partition.replicas) > 1 and (self.enough(place) > 1 or node not in _primaries(partition))

    def operator_decides(self, place: Place, replaced: AbstractSet[int]) -> bool:
        """A primary whose disk was replaced, where one copy was enough; or one that lost records without
        knowing it, and whose log now differs from a backup's.
        """
        partition = place.partition
        # The metadata says that the last leader's disk was replaced; the primary may be another one by now.
        unknown = partition.last_leader < 0 and not replaced.isdisjoint(partition.replicas)
        if not is_restoring(partition):
            return False
        return (unknown and self.enough(place) <= 1) or self._has_parted(place)

    def _has_parted(self, place: Place) -> bool:
        """Whether the primary lost records, and a living backup's log differs within their common range."""
        logs = {
            node.me: node.host.drivers[place.key].log
            for node in self._around.nodes()
            if place.key in node.host.drivers
        }
        primary = place.partition.leader
        own = logs.pop(primary, None)
        if own is None or primary not in self._around.losses.real(place.key):
            return False
        return any(_part(own, log) for log in logs.values())

    # --- losses ---------------------------------------------------------------------------------------------

    def judge(self, place: Place) -> None:
        copies, lost = self.enough(place), self._around.losses.real(place.key)
        now = copies, lost, self._around.losses.count(place.key)
        floor = self._floor(place, lost)
        if floor is None or self._judged.get(place.key) == now:
            return
        self._judged[place.key] = now
        self._around.note(f"{place.name}: all {copies} copies may be gone from {floor} on")
        self._around.forgive(place, floor)

    def _floor(self, place: Place, lost: dict[int, int]) -> int | None:
        """From where on all copies may be lost; None: one of them is left."""
        copies, primaries = self.enough(place), _primaries(place.partition) & lost.keys()
        if len(lost) < copies or not primaries:
            return None
        primary = max(primaries, key=lost.__getitem__)
        others = sorted(end for node, end in lost.items() if node != primary)
        return max([lost[primary], *others[: copies - 1]])

    def dropped(self, place: Place, damaged: AbstractSet[int]) -> None:
        """Records that were acknowledged after the damage go with it. They are lost if all copies were on
        replicas that have dropped or lost them, and not restored them since. A damaged replica still has
        them, and a dead one may. A primary hears every replica in this state before it leads, so nothing is
        lost that a living one has.
        """
        living = self._held(place).keys()
        real = self._around.losses.real(place.key)
        floor = self._floor(place, {node: real[node] for node in real.keys() & living - damaged})
        if floor is None:
            return
        floor = max(floor, *(self.kept_by(place.key, node) for node in living))
        if floor < self._around.committed_end(place.key):
            self._around.note(f"{place.name}: all copies were dropped from {floor} on")
            self._around.forgive(place, floor)

    def enough(self, place: Place) -> int:
        """The fewest copies that were ever enough for an acknowledgement."""
        now = _copies(place.topic, len(place.partition.target))
        return min(now, self._copies.get(place.key, now))

    # --- decisions and commits ------------------------------------------------------------------------------

    def described(self, place: Place) -> None:
        self._copies[place.key] = self.enough(place)

    def decided(self, place: Place, before: PartitionImage) -> None:
        partition = place.partition
        if partition.leader >= 0 and partition.leader not in _primaries(partition):
            raise Violation(f"{place.name}: a replica other than the primary leads: {partition}")
        if not set(partition.in_sync) <= set(partition.replicas):
            raise Violation(f"{place.name}: a member that is no replica: {partition}")
        if partition.unclean_epoch > before.unclean_epoch and not stays_decided(before, partition):
            self._forced(place)
        leader = acting_leader(partition)
        if leader >= 0 and leader != acting_leader(before):
            self._check_leader(place, leader)

    def _forced(self, place: Place) -> None:
        if place.key not in self._around.may_be_forced:
            raise Violation(f"{place.name}: forced without an operator's request: {place.partition}")
        self._around.may_be_forced.discard(place.key)
        floor = self.kept_by(place.key, place.partition.leader)
        self._around.note(f"{place.name}: forced, from {floor} on all is given up")
        self._around.forgive(place, floor)

    def _check_leader(self, place: Place, leader: int) -> None:
        """A new leader holds everything confirmed."""
        committed, held = self._around.committed_end(place.key), self._held(place)
        if leader in held and held[leader] < committed:
            raise Violation(
                f"{place.name}: all before {committed} is confirmed, and node {leader}, which is to lead, "
                f"holds {held[leader]}: {place.partition}"
            )

    def committed(self, place: Place, leader: ReplicaDriver) -> None:
        """As many replicas hold, or have held, what a primary confirms as it claims: a dead one may have it
        on its disk, and one that truncated damaged records had it when it confirmed.
        """
        replica = leader.replica
        if place.partition.leader_epoch != replica.epoch:
            return
        held = self._held(place)
        if replica.me not in held or not set(replica.replicas) <= held.keys():
            return
        lost = self._around.losses.real(place.key)
        copies = sum(node in lost or held[node] >= replica.high_watermark for node in replica.replicas)
        if copies < self.enough(place):
            raise Violation(
                f"{place.name}: node {replica.me} takes all before {replica.high_watermark} for confirmed, "
                f"of which there are {copies} copies: {held}"
            )

    def _held(self, place: Place) -> dict[int, int]:
        """Where the logs of living replicas end."""
        return {
            node.me: node.host.drivers[place.key].log.end_offset
            for node in self._around.nodes()
            if place.key in node.host.drivers
        }


def _part(one: Log, other: Log) -> bool:
    start, end = max(one.start_offset, other.start_offset), min(one.end_offset, other.end_offset)
    mine, others = (batches_between(log, start, end, may_extend=True) for log in (one, other))
    return mine != others


def _copies(topic: TopicImage, replicas: int) -> int:
    if int(topic.configs.get("replication.degrade.after.ms", "-1")) >= 0:
        return 1
    return min(int(topic.configs.get(COPIES, "2")), replicas)


def _primaries(partition: PartitionImage) -> set[int]:
    """The leader, the current or last one; during a move the next one, too."""
    return {partition.target[0], partition.last_leader} - {-1}
