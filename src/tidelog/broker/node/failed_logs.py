"""Reports failed and damaged logs of this broker to the controllers until they have recorded them.

A failed log is not used until the broker restarts. Its synced records are still there then. A log with
damaged records is repaired: the replica drops the damaged records and fetches them again. Before that,
another replica must lead and this one must not be counted. The report says whether the log failed or is
damaged. If records were missing when the log was opened, there is nothing to drop, but the log is reported as
damaged as well. The broker stays fenced until such reports have been recorded.

Reports are repeated, so a duplicate can arrive after the repair. A report of damage therefore contains the
partition epoch that the broker knows, and is refused if the partition has changed since. If a duplicate is
recorded nevertheless, the broker reports the log as healed again.

Damage that is found while a log is in use is only reported if the partition can do without this replica. If
the partition loses its leader before the report is recorded, the report waits for the next leader. Otherwise
the last complete replicas could all go offline, and none would lead, although each could serve what it has.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol, cast
from uuid import UUID

from tidelog.broker.node.ports import NodeState
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.messages import ControllerAsk, OfflineAsk, OfflineGot
from tidelog.errors import ErrorCode
from tidelog.replication.driver import ReplicaDriver
from tidelog.services import Services
from tidelog.types import NO_BROKER

REPEAT_MS = 500

Key = tuple[UUID, int]


class NodeAndBrokers(NodeState, Protocol):
    """The state of the node, and which brokers are available."""

    @property
    def unfenced(self) -> AbstractSet[int]:
        """Brokers that are not fenced."""


class FailedLogs:
    def __init__(
        self,
        node_state: NodeAndBrokers,
        services: Services,
        ask_controller: Callable[[ControllerAsk], None],
        before_drop: Callable[[ReplicaDriver, Callable[[], None]], None],
    ) -> None:
        """``before_drop`` is called before a log drops damaged records, and calls back once that is
        recorded.
        """
        self._node_state = node_state
        self._services = services
        self._ask_controller = ask_controller
        self._before_drop = before_drop
        self._untold: dict[Key, bool] = {}  # To be reported; whether as damaged.
        self._optional: set[Key] = set()  # Those of them that need a leader.
        self._held: set[Key] = set()  # Those of these that wait for one.
        self._told_in: dict[Key, int] = {}  # The partition epoch in the last report of each.
        self._damaged: dict[ReplicaDriver, None] = {}  # To be repaired, after another replica leads.
        self._repaired: set[Key] = set()
        self._healing: set[Key] = set()  # Being reported as healed.

    def failed(self, driver: ReplicaDriver) -> None:
        self.went_offline(*cast(Key, driver.key))

    def went_offline(self, topic_id: UUID, index: int, *, damaged: bool = False) -> None:
        """Report the log until the controllers have recorded it, so that another replica leads. ``damaged``:
        synced records are missing or will be dropped.
        """
        self._optional.discard((topic_id, index))
        self._held.discard((topic_id, index))
        self._note_untold((topic_id, index), damaged=damaged)

    def _note_untold(self, key: Key, *, damaged: bool) -> None:
        self._repaired.discard(key)
        if not self._untold:
            self._services.soon(self._tell_offline)
        self._untold[key] = damaged or self._untold.get(key, False)

    def lost(self, topic_id: UUID, index: int) -> None:
        """A log was missing and was replaced by an empty one. It is treated as damaged from its start and
        repaired.
        """
        self.went_offline(topic_id, index, damaged=True)
        self._repaired.add((topic_id, index))

    def damaged(self, driver: ReplicaDriver) -> None:
        self._repaired.discard(cast(Key, driver.key))
        self._damaged[driver] = None
        self._repair(self._node_state.image)

    @property
    def have_told(self) -> bool:
        """Whether the controllers know of every log that failed or lost records. A report that waits for a
        leader does not count: this replica may have to lead.
        """
        return self._untold.keys() <= self._held and not any(driver.damage.is_cut for driver in self._damaged)

    def answered(self, got: OfflineGot) -> None:
        if got.error is not ErrorCode.NONE or got.healed:
            return
        if got.broker_epoch != self._node_state.broker_epoch:
            return  # The report was that of an earlier incarnation of this broker.
        for key in got.partitions:
            # A log that was reported as failed may have been found to be damaged since.
            if not (got.unwritable and self._untold.get(key, False)):
                self._untold.pop(key, None)

    def metadata_changed(self, image: ClusterImage) -> None:
        self._repair(image)
        if any(self._told_in.get(key, epoch) != epoch for key, epoch in self._untold_epochs()):
            self._report()  # A report with an earlier partition epoch is refused.
        # A repaired log may be offline again, because of a duplicate of a report from before the repair.
        for key in sorted(self._repaired - self._healing):
            self._tell_healed(key)

    def look(self) -> None:
        """Called periodically: whether other replicas have all records changes without a metadata change."""
        if self._damaged:
            self._repair(self._node_state.image)

    def _repair(self, image: ClusterImage) -> None:
        """Continue the repair of damaged logs. Until another replica can lead, intact records are served."""
        if not self._node_state.roles_are_current:
            return  # The roles of the replicas are older than the image. This is repeated later.
        for driver in list(self._damaged):
            topic_id, index = cast(Key, driver.key)
            topic = image.topic_by_id(topic_id)
            if topic is None or driver.closed:
                del self._damaged[driver]
            elif self._node_state.me not in topic.partitions[index].damaged:
                if driver.damage.is_cut:
                    self.went_offline(topic_id, index, damaged=True)
                else:
                    self._tell_or_hold(driver, topic.partitions[index])
            elif driver.damage.is_cut or driver.has_leader or driver.stand_in.gathers_when_it_leads:
                del self._damaged[driver]
                self._before_drop(driver, lambda driver=driver: self._drop(driver))  # type: ignore[misc]

    def _tell_or_hold(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        key = cast(Key, driver.key)
        if self._steps_aside(driver, partition):
            if key not in self._untold:
                self._optional.add(key)
            self._held.discard(key)
            self._note_untold(key, damaged=True)
        elif key in self._optional and partition.leader == NO_BROKER:
            self._held.add(key)
        else:
            self._held.discard(key)  # If this replica leads, it goes on leading while it is offline.

    def _drop(self, driver: ReplicaDriver) -> None:
        if driver.damage.is_cut:
            driver.damage.is_known()
        elif driver.has_leader or driver.stand_in.gathers_when_it_leads:
            driver.damage.repair()
        else:
            self._damaged[driver] = None  # The leader was lost meanwhile.
            return
        if driver.log.failure is not None:
            return  # It is unknown whether the records were dropped: it stays damaged until a restart.
        key = cast(Key, driver.key)
        self._repaired.add(key)
        if key not in self._healing:
            self._tell_healed(key)

    def _steps_aside(self, driver: ReplicaDriver, partition: PartitionImage) -> bool:
        """Whether a partition can do without this broker's replica. An eligible replica holds everything that
        is committed, as a member does. It may be unable to join while this replica leads, because it cannot
        fetch damaged records.
        """
        me = self._node_state.me
        if partition.leader != me:
            return partition.leader >= 0 or driver.stand_in.gathers_when_it_leads
        others = self._node_state.unfenced - {me} - set(partition.offline)
        return driver.successors.steps_aside(others & {*partition.in_sync, *partition.eligible})

    def _tell_healed(self, key: Key) -> None:
        """Report a repaired log until the metadata contains it."""
        me, topic = self._node_state.me, self._node_state.image.topic_by_id(key[0])
        if topic is None:
            self._repaired.discard(key)
        partition = None if topic is None else topic.partitions[key[1]]
        here = partition is not None and me in partition.offline
        if self._node_state.stopped or partition is None or not here or key not in self._repaired:
            self._healing.discard(key)
            return
        if self._node_state.broker_epoch >= 0 and me in partition.damaged:
            self._untold.pop(key, None)  # Recorded. Another report would be counted as another loss.
        self._healing.add(key)
        self._ask_controller(
            OfflineAsk(self._node_state.me, self._node_state.broker_epoch, (key,), healed=True)
        )
        self._services.later(REPEAT_MS, lambda: self._tell_healed(key))

    def _tell_offline(self) -> None:
        if self._node_state.stopped or not self._untold:
            return
        self._report()
        self._services.later(REPEAT_MS, self._tell_offline)

    def _report(self) -> None:
        if self._node_state.broker_epoch < 0:
            return
        # Until the roles are known, it is not decided which of the reports wait.
        withheld = self._held if self._node_state.roles_are_current else self._optional
        for damaged in (True, False):
            untold = (key for key, is_damaged in self._untold.items() if is_damaged is damaged)
            keys = tuple(sorted(key for key in untold if key not in withheld))
            if keys:
                me, epoch = self._node_state.me, self._node_state.broker_epoch
                known = tuple(self._partition_epoch(key) for key in keys) if damaged else ()
                self._told_in.update(zip(keys, known, strict=False))
                self._ask_controller(
                    OfflineAsk(me, epoch, keys, unwritable=not damaged, partition_epochs=known)
                )

    def _untold_epochs(self) -> Iterator[tuple[Key, int]]:
        return ((key, self._partition_epoch(key)) for key in self._untold)

    def _partition_epoch(self, key: Key) -> int:
        """The partition epoch in this node's metadata; -1 for an unknown topic."""
        topic = self._node_state.image.topic_by_id(key[0])
        return -1 if topic is None else topic.partitions[key[1]].partition_epoch
