"""Mode ``isr``. When a committed record may be lost:

====================== ====================================================================================
topic                  committed records may be lost when
====================== ====================================================================================
by default             every member of the in-sync set (and every eligible former member) has lost power
                       since it caught up to become one, and so possibly the unsynced end of its log
``flush.messages=1``   every member has lost its disk
unclean elections on   none of them is alive, and another replica is elected: what it does not hold
an operator forces it  the elected one lacks them (in the seeds: only when no replica is complete any more,
                       and the last one that was returned with a new disk, had damaged records, or
                       lacks what its disk had reported as synced)
====================== ====================================================================================

Tracked from outside: which machines lost power, what was left on their disks, and which replicas rejoined
since.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tidelog.controller.image import PartitionImage
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers.promises.losses import NOTHING_LOST, stays_decided, trusted
from tidelog.sim.checkers.promises.place import Key, Place
from tidelog.sim.checkers.promises.promise import ACKS_ALL, Promise, Surroundings
from tidelog.sim.checkers.violation import Violation


class IsrPromise(Promise):
    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._judged: dict[Key, tuple[set[int], int]] = {}  # members that were all unsound, at which loss
        self._last: dict[Key, set[int]] = {}  # the replicas considered complete before none was
        # Whether the topic allows it, before the newest metadata and now: both may have arrived at once.
        self._unclean: dict[Key, tuple[bool, bool]] = {}

    def is_safe(self, acks: int) -> bool:
        return acks == ACKS_ALL

    def is_whole(self, place: Place) -> bool:
        partition = place.partition
        return partition.leader >= 0 and set(partition.in_sync) == set(partition.replicas)

    def can_do_without(self, place: Place, node: int) -> bool:
        return len(place.partition.in_sync) > 1

    def operator_decides(self, place: Place, replaced: AbstractSet[int]) -> bool:
        """No replica is complete any more, and the last one that was has a new or damaged disk, or one that
        lied about syncs.
        """
        partition, last = place.partition, self._last.get(place.key, set())
        nobody = partition.leader < 0 and partition.last_leader < 0 and not trusted(partition)
        losses = self._around.losses
        real = losses.real(place.key).keys()
        gone = replaced | losses.more_than_tails(place.key)
        if not last:
            # Created for a disk that was gone: the controllers learned of both at once.
            return nobody and not replaced.isdisjoint(partition.replicas)
        return nobody and bool(last) and last <= real and not last.isdisjoint(gone)

    # --- losses ---------------------------------------------------------------------------------------------

    def must_trust(self, place: Place) -> bool:
        return trusted(place.partition) <= self._around.losses.of(place.key).keys()

    def judge(self, place: Place) -> None:
        unsound = self._around.losses.of(place.key)
        # Where none is left, the last ones are still to lead: with less, if they lose power once more.
        members = trusted(place.partition) or self._last.get(place.key, set())
        if not members or not members <= unsound.keys():
            return
        floor = min(unsound[member] for member in members)
        now = members, self._around.losses.count(place.key)
        if floor == NOTHING_LOST or self._judged.get(place.key) == now:
            return
        self._judged[place.key] = now
        self._around.note(f"{place.name}: all members lost power, from {floor} on all may be gone")
        self._around.forgive(place, floor)

    # --- decisions and commits ------------------------------------------------------------------------------

    def described(self, place: Place) -> None:
        now = place.topic.configs.get("unclean.leader.election.enable") == "true"
        self._unclean[place.key] = self._unclean.get(place.key, (now, now))[1], now

    def decided(self, place: Place, before: PartitionImage) -> None:
        partition = place.partition
        if trusted(before) and not trusted(partition):
            self._last[place.key] = trusted(before)
        # While no replica is known to be complete, the last one that was collects what others have kept.
        if partition.leader >= 0 and partition.leader not in partition.in_sync and trusted(partition):
            raise Violation(f"{place.name}: the leader is not in its own in-sync set: {partition}")
        if not set(partition.in_sync) <= set(partition.replicas):
            raise Violation(f"{place.name}: a member that is no replica: {partition}")
        if partition.unclean_epoch > before.unclean_epoch and not stays_decided(before, partition):
            self._elected_uncleanly(place)
        joined = {*partition.in_sync} - {*before.in_sync}
        committed = self._around.committed_end(place.key)
        for node, held in self._held(place):
            # A joining replica has just caught up, whatever it lost before.
            if held < committed and (node in joined or self._is_sound(place, node)):
                raise Violation(
                    f"{place.name}: all before {committed} is committed, and node {node} may lead, which "
                    f"holds {held}: {partition}"
                )

    def passed(self, place: Place, state: PartitionImage) -> None:
        if trusted(state):
            self._last[place.key] = trusted(state)

    def _elected_uncleanly(self, place: Place) -> None:
        """An unclean election gives up what the elected one lacks, but only if the topic allows it, an
        operator forces it, or no replica is known to be complete.
        """
        partition, forced = place.partition, place.key in self._around.may_be_forced
        if not forced and not any(self._unclean.get(place.key, ())):
            elected = partition.leader if partition.leader >= 0 else partition.last_leader
            if elected not in self._around.losses.of(place.key):
                raise Violation(f"{place.name}: an unclean election without leave: {partition}")
            return
        self._around.may_be_forced.discard(place.key)
        floor = self.kept_by(place.key, partition.leader)
        self._around.note(f"{place.name}: unclean election, from {floor} on all is given up")
        self._around.forgive(place, floor)

    def committed(self, place: Place, leader: ReplicaDriver) -> None:
        """Every replica that may be the next leader according to the controllers holds what a
        leader commits.
        """
        replica = leader.replica
        if place.partition.leader_epoch != replica.epoch:
            return
        for node, held in self._held(place):
            if held < replica.high_watermark and self._is_sound(place, node):
                raise Violation(
                    f"{place.name}: node {replica.me} takes all before {replica.high_watermark} for "
                    f"committed, but node {node}, which may lead, holds {held}"
                )

    def _held(self, place: Place) -> Iterator[tuple[int, int]]:
        """Living replicas that may be elected, and their log ends. One whose log is offline may not: it may
        still be a member while it is unknown which others are left.
        """
        members, key = trusted(place.partition).difference(place.partition.offline), place.key
        for node in self._around.nodes():
            driver = node.host.drivers.get(key) if node.me in members else None
            if driver is not None:
                yield node.me, driver.log.end_offset

    def _is_sound(self, place: Place, node: int) -> bool:
        return node not in self._around.losses.real(place.key)
