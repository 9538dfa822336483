"""Reports to the controllers when a stronger setting holds for the whole log of a replica on this broker. The
report is repeated until the metadata contains it.

The setting holds for the whole log when it holds for the records that were in the log when the replica got
the setting, or when it became leader afterwards: they are synced, or have enough copies. Later records are
acknowledged only under the new setting.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.node.ports import NodeState
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.messages import ControllerAsk, PromiseConfirmedAsk
from tidelog.controller.promises import ConfirmedPromise
from tidelog.controller.successions import acting_leader
from tidelog.replication.copies import has_copies_of
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import PartitionKey
from tidelog.services import Services
from tidelog.types import NO_EPOCH

RECHECK_MS = 10
REPEAT_MS = 500
AT_ONCE_MAX = 1000

Key = tuple[UUID, int]


class Mark(NamedTuple):
    promise_epoch: int
    led_epoch: int  # in which this replica leads and must have its log copied; -1 if it need not
    end_offset: int  # log end offset when the replica got the setting


class PromiseConfirmations:
    def __init__(
        self,
        node_state: NodeState,
        driver: Callable[[PartitionKey], ReplicaDriver | None],
        services: Services,
        ask_controller: Callable[[ControllerAsk], None],
    ) -> None:
        self._node_state = node_state
        self._driver = driver
        self._services = services
        self._ask_controller = ask_controller
        self._open: dict[Key, Mark] = {}  # Not fulfilled yet, or not recorded yet.
        self._unopened: set[Key] = set()  # Logs are opened a few at a time; these are checked later.
        self._seen: dict[UUID, TopicImage] = {}
        self._looking = False
        self._pause_ms = RECHECK_MS
        self._asked: tuple[ConfirmedPromise, ...] = ()
        self._asked_ms = 0

    def metadata_changed(self, image: ClusterImage) -> None:
        """Called after the replicas have got the settings."""
        seen, self._seen = self._seen, {topic.topic_id: topic for topic in image.topics.values()}
        for topic_id, topic in self._seen.items():
            if seen.get(topic_id) is not topic:
                for index, partition in enumerate(topic.partitions):
                    if self._concerns(partition):
                        self._note((topic_id, index), partition)
        self._pause_ms = RECHECK_MS
        if (self._open or self._unopened) and not self._looking:
            self._looking = True
            self._services.soon(self._look)

    def _concerns(self, partition: PartitionImage) -> bool:
        return self._node_state.me in partition.unsynced or self._has_to_copy(partition)

    def _has_to_copy(self, partition: PartitionImage) -> bool:
        wanted = partition.copies > 0 or partition.ending
        return wanted and acting_leader(partition) == self._node_state.me

    def _note(self, key: Key, partition: PartitionImage) -> None:
        driver = self._driver(key)
        known = self._open.get(key)
        if driver is None:
            self._unopened.add(key)
        elif known is None or known[:2] != self._heard(partition):
            self._open[key] = Mark(*self._heard(partition), driver.log.end_offset)

    def _heard(self, partition: PartitionImage) -> tuple[int, int]:
        """Promise epoch and led epoch. A new leader may have restored records that no other replica has."""
        epoch = partition.leader_epoch if self._has_to_copy(partition) else NO_EPOCH
        return partition.promise_epoch, epoch

    def _look(self) -> None:
        if self._node_state.stopped:
            return
        self._note_opened()
        confirmed = tuple(self._confirmed())[:AT_ONCE_MAX]
        if not self._open and not self._unopened:
            self._looking = False
            return
        now_ms = self._services.uptime_ms()
        due = confirmed != self._asked or now_ms - self._asked_ms >= REPEAT_MS
        if confirmed and due and self._node_state.broker_epoch >= 0:
            self._asked, self._asked_ms = confirmed, now_ms
            self._ask_controller(
                PromiseConfirmedAsk(self._node_state.me, self._node_state.broker_epoch, confirmed)
            )
        # If a backup is down, many partitions may wait for a long time.
        self._pause_ms = min(2 * self._pause_ms, REPEAT_MS)
        self._services.later(self._pause_ms, self._look)

    def _note_opened(self) -> None:
        if not self._node_state.roles_are_current:
            return  # Its replica may not know of the setting yet, and acknowledge without it.
        unopened, self._unopened = self._unopened, set()
        for key in sorted(unopened):
            topic = self._node_state.image.topic_by_id(key[0])
            if topic is not None and self._concerns(topic.partitions[key[1]]):
                self._note(key, topic.partitions[key[1]])

    def _confirmed(self) -> Iterator[ConfirmedPromise]:
        """The promises that hold and are not in the metadata yet."""
        image, me = self._node_state.image, self._node_state.me
        for key, mark in list(self._open.items()):
            topic, driver = image.topic_by_id(key[0]), self._driver(key)
            if topic is None or driver is None or not self._concerns(topic.partitions[key[1]]):
                del self._open[key]
                if topic is not None and driver is None:
                    self._unopened.add(key)
                continue
            partition = topic.partitions[key[1]]
            if mark[:2] != self._heard(partition):
                continue  # The replica may not have the setting yet, and may acknowledge without it.
            # The log may have been truncated since, because another leader did not have its end.
            end_offset = min(mark.end_offset, driver.log.end_offset)
            synced = me in partition.unsynced and driver.is_synced_to(end_offset)
            copied = self._has_to_copy(partition) and has_copies_of(driver.replica, end_offset)
            if synced or copied:
                yield ConfirmedPromise(*key, mark.promise_epoch, synced, copied)
