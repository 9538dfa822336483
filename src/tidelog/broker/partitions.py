"""All partitions of this broker: found by topic name or id, kept in step with the cluster's metadata.

Opening a log touches the disk, so after a change of metadata the new partitions are opened in slices; whoever
must not answer before they are there waits with :meth:`PartitionTable.when_settled`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol
from uuid import UUID

from tidelog.broker.partition import Partition
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.log import Log
from tidelog.protocol.produce import TopicKey
from tidelog.services import Services
from tidelog.types import TopicPartition

logger = logging.getLogger(__name__)

OPENED_PER_SLICE = 32  # about 10 ms of making files

Row = dict[int, Partition]


class Logs(Protocol):
    """The broker's data directory."""

    def open_log(self, name: TopicPartition, topic_id: UUID, config: TopicConfig, now_ms: int) -> Log: ...

    def remove_log(self, name: TopicPartition, now_ms: int) -> None: ...

    def usage(self) -> tuple[int, int]:
        """(total bytes, free bytes) of the volume."""

    @property
    def path(self) -> str: ...


class PartitionTable:
    def __init__(
        self, broker_id: int, logs: Logs, services: Services, on_sync_wanted: Callable[[Partition], None]
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._services = services
        self._on_sync_wanted = on_sync_wanted
        self._rows: dict[TopicKey, Row] = {}  # each row stands here twice: under the topic's name and its id
        self._offline: set[TopicPartition] = set()  # logs that could not be opened
        self._topics: dict[UUID, TopicImage] = {}
        self._to_open: deque[tuple[TopicImage, int]] = deque()
        self._when_settled: list[Callable[[], None]] = []
        self._config: BrokerConfig | None = None
        self._refusals_logged: dict[tuple[TopicPartition, ErrorCode], int] = {}

    def find(self, key: TopicKey, index: int) -> tuple[Partition | None, ErrorCode]:
        """The partition, or why there is none."""
        row = self._rows.get(key)
        if row is None:
            unknown = (
                ErrorCode.UNKNOWN_TOPIC_ID if isinstance(key, UUID) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return None, unknown
        partition = row.get(index)
        if partition is None:
            return None, self._why_missing(key, index)
        return partition, ErrorCode.NONE

    def _why_missing(self, key: TopicKey, index: int) -> ErrorCode:
        for topic in self._topics.values():
            if key in (topic.name, topic.topic_id):
                if not 0 <= index < len(topic.partitions):
                    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if TopicPartition(topic.name, index) in self._offline:
                    return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __iter__(self) -> Iterator[Partition]:
        for topic in list(self._topics.values()):
            yield from list(self._rows[topic.topic_id].values())

    def __len__(self) -> int:
        return sum(len(self._rows[topic.topic_id]) for topic in self._topics.values())

    def follow(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Open what is new, drop what is gone, take over changed settings."""
        config_changed = config is not self._config
        self._config = config
        for topic_id in [topic_id for topic_id in self._topics if topic_id not in image.topic_names]:
            self._drop(self._topics.pop(topic_id))
        for topic in image.topics.values():
            known = self._topics.get(topic.topic_id)
            if known is topic and not config_changed:
                continue
            self._topics[topic.topic_id] = topic
            if known is None:
                self._rows[topic.name] = self._rows[topic.topic_id] = {}
            elif known.configs != topic.configs or config_changed:
                self._reconfigure(topic)
            old_count = 0 if known is None else len(known.partitions)
            for index in range(old_count, len(topic.partitions)):
                if self._broker_id in topic.partitions[index].replicas:
                    self._to_open.append((topic, index))
        self._open_slice()

    @property
    def data_path(self) -> str:
        return self._logs.path

    def disk_usage(self) -> tuple[int, int]:
        return self._logs.usage()

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back when everything known so far is open."""
        if self._to_open:
            self._when_settled.append(callback)
        else:
            callback()

    def _open_slice(self) -> None:
        for _ in range(min(OPENED_PER_SLICE, len(self._to_open))):
            topic, index = self._to_open.popleft()
            if topic.topic_id in self._topics:
                self._open(self._topics[topic.topic_id], index)
        if self._to_open:
            self._services.soon(self._open_slice)
            return
        callbacks, self._when_settled = self._when_settled, []
        for callback in callbacks:
            callback()

    def _open(self, topic: TopicImage, index: int) -> None:
        name = TopicPartition(topic.name, index)
        try:
            config = self._topic_config(topic)
            log = self._logs.open_log(name, topic.topic_id, config, self._services.now_ms())
        except TidelogError as error:
            logger.error("partition %s is offline: %s", name, error.message)
            self._offline.add(name)
            return
        self._limit_producers(log)
        epoch = topic.partitions[index].leader_epoch
        self._rows[topic.topic_id][index] = Partition(name, log, config, epoch, self._on_sync_wanted)

    def _drop(self, topic: TopicImage) -> None:
        row = self._rows.pop(topic.topic_id)
        # A topic of the same name may have been created anew in the same step; its row must stay.
        if self._rows.get(topic.name) is row:
            del self._rows[topic.name]
        for partition in row.values():
            partition.closed()
            self._logs.remove_log(partition.name, self._services.now_ms())
        for index in range(len(topic.partitions)):
            self._offline.discard(TopicPartition(topic.name, index))

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._topic_config(topic)
        for partition in self._rows[topic.topic_id].values():
            partition.reconfigure(config)
            self._limit_producers(partition.log)

    def _limit_producers(self, log: Log) -> None:
        if self._config is not None:
            log.producers.expiration_ms = self._config.producer_id_expiration_ms
            log.producers.producers_max = self._config.producer_ids_per_partition_max

    def _topic_config(self, topic: TopicImage) -> TopicConfig:
        if self._config is None:
            raise TidelogError("no configuration yet")
        return TopicConfig.resolve(topic.configs, self._config)

    def refused(self, partition: Partition, refusal: TidelogError, peer: str) -> None:
        """Say in the log that a producer was refused, once a minute per partition and reason."""
        now_ms = self._services.now_ms()
        key = (partition.name, refusal.code)
        if now_ms - self._refusals_logged.get(key, -60_000) >= 60_000:
            if len(self._refusals_logged) > 1000:
                self._refusals_logged.clear()
            self._refusals_logged[key] = now_ms
            logger.warning("refused records of %s for %s: %s", peer, partition.name, refusal.message)
