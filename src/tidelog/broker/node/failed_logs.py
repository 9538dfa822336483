"""Logs of this broker that have failed or are damaged: the controllers hear of them until they understood.

A log that failed takes part in nothing until the broker starts anew; what it had synced is still there then.
One with damaged records is repaired: somebody else must lead, and this replica count for nothing, before it
drops what is damaged and fetches it again. The controllers are told which of the two it is. Where records
were missing when the log was opened, nothing is left to be dropped, but the same is said; and the cluster
does not let the broker in before it has heard it. Reports are repeated, so a double can arrive after the
repair: one of damage names the partition epoch that the broker knows, and is refused if the partition has
changed since. A double that is taken all the same is contradicted.
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

REPEAT_MS = 500

Key = tuple[UUID, int]


class NodeAndBrokers(NodeState, Protocol):
    """And which brokers there are."""

    @property
    def serving(self) -> AbstractSet[int]:
        """Brokers that are not fenced."""


class FailedLogs:
    def __init__(
        self,
        node_state: NodeAndBrokers,
        services: Services,
        ask_controller: Callable[[ControllerAsk], None],
        before_drop: Callable[[ReplicaDriver, Callable[[], None]], None],
    ) -> None:
        """``before_drop``: called before a log drops what is damaged; goes on when that is noted."""
        self._node_state = node_state
        self._services = services
        self._ask_controller = ask_controller
        self._before_drop = before_drop
        self._untold: dict[Key, bool] = {}  # The controllers must hear of them; whether as damaged.
        self._told_in: dict[Key, int] = {}  # The partition epoch that the last report of each named.
        self._damaged: dict[ReplicaDriver, None] = {}  # Others must take over before these are repaired.
        self._repaired: set[Key] = set()
        self._healing: set[Key] = set()  # The controllers are being told that these are whole again.

    def failed(self, driver: ReplicaDriver) -> None:
        self.went_offline(*cast(Key, driver.key))

    def went_offline(self, topic_id: UUID, index: int, *, damaged: bool = False) -> None:
        """Let the controllers know, until one has heard: somebody else must lead. ``damaged``: records that
        were synced are missing, or will be.
        """
        key = topic_id, index
        self._repaired.discard(key)
        if not self._untold:
            self._services.soon(self._tell_offline)
        self._untold[key] = damaged or self._untold.get(key, False)

    def lost(self, topic_id: UUID, index: int) -> None:
        """A log was gone, and an empty one has taken its place: as if it had been damaged from its beginning
        on, and was repaired.
        """
        self.went_offline(topic_id, index, damaged=True)
        self._repaired.add((topic_id, index))

    def damaged(self, driver: ReplicaDriver) -> None:
        self._repaired.discard(cast(Key, driver.key))
        self._damaged[driver] = None
        self._repair(self._node_state.image)

    @property
    def have_told(self) -> bool:
        """Whether the controllers know of every log that cannot be relied on as they rely on it."""
        return not self._untold and not any(driver.damage.is_cut for driver in self._damaged)

    def answered(self, got: OfflineGot) -> None:
        if got.error is not ErrorCode.NONE or got.healed:
            return
        if got.broker_epoch != self._node_state.broker_epoch:
            return  # An earlier process of this broker was heard, not this one.
        for key in got.partitions:
            # It may have turned out since that more is wrong than the controllers were told.
            if not (got.unwritable and self._untold.get(key, False)):
                self._untold.pop(key, None)

    def metadata_changed(self, image: ClusterImage) -> None:
        self._repair(image)
        if any(self._told_in.get(key, epoch) != epoch for key, epoch in self._untold_epochs()):
            self._report()  # What was told in an earlier epoch is refused.
        # Whole, and offline again: a report from before the repair has arrived a second time.
        for key in sorted(self._repaired - self._healing):
            self._tell_healed(key)

    def look(self) -> None:
        """Now and then: whether others hold everything changes without a word of the metadata."""
        if self._damaged:
            self._repair(self._node_state.image)

    def _repair(self, image: ClusterImage) -> None:
        """As long as there is nobody else, what is whole goes on being served."""
        for driver in list(self._damaged):
            topic_id, index = cast(Key, driver.key)
            topic = image.topic_by_id(topic_id)
            if topic is None or driver.closed:
                del self._damaged[driver]
            elif self._node_state.me not in topic.partitions[index].damaged:
                if driver.damage.is_cut or self._steps_aside(driver, topic.partitions[index]):
                    self.went_offline(topic_id, index, damaged=True)
            elif driver.damage.is_cut or driver.follows_somebody or driver.stand_in.gathers_when_it_leads:
                del self._damaged[driver]
                self._before_drop(driver, lambda driver=driver: self._drop(driver))  # type: ignore[misc]

    def _drop(self, driver: ReplicaDriver) -> None:
        if driver.damage.is_cut:
            driver.damage.is_known()
        elif driver.follows_somebody or driver.stand_in.gathers_when_it_leads:
            driver.damage.repair()
        else:
            self._damaged[driver] = None  # Its leader was lost meanwhile.
            return
        if driver.log.failure is not None:
            return  # Nothing was dropped, or not for sure: it stays damaged until the broker starts anew.
        key = cast(Key, driver.key)
        self._repaired.add(key)
        if key not in self._healing:
            self._tell_healed(key)

    def _steps_aside(self, driver: ReplicaDriver, partition: PartitionImage) -> bool:
        """Whether a partition can do without this broker's replica. Where nobody takes over, a backup must
        hold everything, and nothing more be written: what is dropped here has to come back from there. One
        that has stepped back leads no more, whoever is there.
        """
        if partition.leader == self._node_state.me and not driver.successors.may_be:
            return driver.damage.resign_if_copied()
        if driver.stand_in.gathers_when_it_leads:
            return True
        return self._others_hold(partition)

    def _others_hold(self, partition: PartitionImage) -> bool:
        if partition.leader != self._node_state.me:
            return partition.leader >= 0
        others = self._node_state.serving - {self._node_state.me} - set(partition.offline)
        return not others.isdisjoint(partition.in_sync)

    def _tell_healed(self, key: Key) -> None:
        """Until the metadata says so."""
        me, topic = self._node_state.me, self._node_state.image.topic_by_id(key[0])
        if topic is None:
            self._repaired.discard(key)
        partition = None if topic is None else topic.partitions[key[1]]
        here = partition is not None and me in partition.offline
        if self._node_state.stopped or partition is None or not here or key not in self._repaired:
            self._healing.discard(key)
            return
        if self._node_state.broker_epoch >= 0 and me in partition.damaged:
            self._untold.pop(key, None)  # They know. Said again, it would be one more loss.
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
        for damaged in (True, False):
            keys = tuple(sorted(key for key, is_damaged in self._untold.items() if is_damaged is damaged))
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
        """As the metadata has it here; -1 for a topic that is not known here."""
        topic = self._node_state.image.topic_by_id(key[0])
        return -1 if topic is None else topic.partitions[key[1]].partition_epoch
