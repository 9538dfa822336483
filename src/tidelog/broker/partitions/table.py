"""All partitions of this broker, by topic name and id, updated from the cluster's metadata.

The metadata says which replicas this broker has and what their roles are; the table opens, assigns and drops
them. Opening and dropping a log uses the disk, and there may be thousands of new roles, so after a change of
metadata all of this is done in slices (:mod:`~tidelog.broker.partitions.opening_queue`). Until its turn, a
replica keeps its previous role and settings, as if the metadata had arrived later. Use
:meth:`PartitionTable.when_open` to wait until the new partitions are open and all roles are assigned.
"""

import logging
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from operator import is_
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.broker.partitions.assigning import AppointedAssigner, Assigner, ElectedAssigner
from tidelog.broker.partitions.assigning import stand_in as confirm_as_stand_in
from tidelog.broker.partitions.logs import Logs
from tidelog.broker.partitions.opening_queue import OpeningQueue
from tidelog.broker.partitions.partition import Followed, Partition, limits_of
from tidelog.broker.partitions.refusals import Refusals
from tidelog.broker.partitions.refused_batches import RefusedBatches
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.config.topic import REPLICATION_MODE, mode_of
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.successions import acting_leader, stand_in
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.log import Log
from tidelog.protocol.produce import TopicKey
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES, Leaders
from tidelog.replication.replica import Replica, Role
from tidelog.replication.throttle import throttled_followers
from tidelog.services import Services, ignore
from tidelog.types import NO_BROKER, TopicPartition

logger = logging.getLogger(__name__)

Row = dict[int, Partition]


def _never() -> bool:
    return False


def _always() -> bool:
    return True


class TablePorts(NamedTuple):
    """Callbacks of the table: for the state of the cluster, and for logs that fail."""

    alone: Callable[[], bool] = _never  # whether the controllers may have fenced this broker
    may_be_decided: Callable[[], bool] = _never  # whether there may be a majority of controllers
    on_offline: Callable[[UUID, int], None] = ignore  # a log cannot be opened
    on_lost: Callable[[UUID, int], None] = ignore  # a voter's log was missing; now empty
    # Whether no controller has fenced this broker, as far as it can know.
    is_certain: Callable[[], bool] = _always
    metadata_failed: Callable[[], bool] = _never  # whether the metadata log takes no writes


UNHEARD = TablePorts()
"""Ignores all notifications."""


class PartitionTable:
    def __init__(
        self,
        host: Host,
        logs: Logs,
        services: Services,
        quorum: QuorumPartitions,
        ports: TablePorts = UNHEARD,
    ) -> None:
        """``quorum`` manages partitions whose replicas vote."""
        self._me = host.me
        self._host = host
        self._logs = logs
        logs.is_log_confirmed = self._is_log_confirmed
        self._services = services
        self._ports = ports
        self._rows: dict[TopicKey, Row] = {}  # each row is here twice: by topic name and by topic id
        self._offline: set[TopicPartition] = set()  # logs that could not be opened
        self._topics: dict[UUID, TopicImage] = {}
        self._ids: dict[str, UUID] = {}  # by name
        self.queue = OpeningQueue(services, self._assign_if_wanted, self._open_if_wanted, self._drop)
        self.refusals = Refusals(services)
        self.refused = RefusedBatches(services)
        self._config: BrokerConfig | None = None
        self._orphaning: AbstractSet[int] = frozenset()  # ended, but cannot be fenced
        # Called when this broker starts or stops leading a partition, and before a partition is closed.
        self.on_role: list[Callable[[Partition], None]] = []
        self.quorum = quorum
        self._assigners: dict[Leaders, Assigner] = {
            Leaders.APPOINTED: AppointedAssigner(host, quorum, self),
            Leaders.ELECTED: ElectedAssigner(quorum, ports.on_offline, ports.on_lost),
        }

    def _assigner(self, partition: PartitionImage) -> Assigner:
        return self._assigners[MODES[partition.mode].leaders]

    def newest(self, topic: TopicImage) -> TopicImage:
        """The topic with the newest leaders known to this broker."""
        partitions = tuple(
            [
                self._assigner(partition).newest((topic.topic_id, index), partition)
                for index, partition in enumerate(topic.partitions)
            ]
        )
        if all(map(is_, partitions, topic.partitions)):
            return topic
        return msgspec.structs.replace(topic, partitions=partitions)

    def newest_partition(self, topic: TopicImage, index: int) -> PartitionImage:
        """One partition of it."""
        partition = topic.partitions[index]
        return self._assigner(partition).newest((topic.topic_id, index), partition)

    def find(self, key: TopicKey, index: int) -> tuple[Partition | None, ErrorCode]:
        """The partition, or None with the error code."""
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
        topic_id = key if isinstance(key, UUID) else self._ids.get(key)
        topic = None if topic_id is None else self._topics.get(topic_id)
        if topic is not None:
            if not 0 <= index < len(topic.partitions):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if TopicPartition(topic.name, index) in self._offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __iter__(self) -> Iterator[Partition]:
        for topic_id in list(self._topics):
            yield from list(self._rows[topic_id].values())

    def __len__(self) -> int:
        return sum(len(self._rows[topic_id]) for topic_id in self._topics)

    @property
    def may_be_fenced(self) -> bool:
        """Whether this broker has no session: the controllers may have fenced it and appointed new leaders
        without its knowledge.
        """
        return self._ports.alone()

    @property
    def data_path(self) -> str:
        return self._logs.path

    def disk_usage(self) -> tuple[int, int]:
        return self._logs.usage()

    # --- following the metadata -----------------------------------------------------------------------------

    def follow(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Open new partitions, assign changed ones, drop removed ones, and apply changed settings."""
        config_changed = config is not self._config
        self._config = config
        self._host.fetch_server.throttle.set_rate(
            config.leader_replication_throttled_rate, self._services.uptime_ms()
        )
        for topic_id in [topic_id for topic_id in self._topics if topic_id not in image.topic_names]:
            self._drop_topic(self._topics.pop(topic_id))
        for topic in image.topics.values():
            known = self._topics.get(topic.topic_id)
            if known is topic and not config_changed:
                continue
            self._topics[topic.topic_id] = topic
            if known is None:
                self._rows[topic.name] = self._rows[topic.topic_id] = {}
                self._ids[topic.name] = topic.topic_id
            self._follow_topic(topic, known, config_changed=config_changed)
        self.queue.begin()

    def _follow_topic(self, topic: TopicImage, known: TopicImage | None, *, config_changed: bool) -> None:
        old = () if known is None else known.partitions
        reconfigured = known is not None and (known.configs != topic.configs or config_changed)
        row = self._rows[topic.topic_id]
        for index, partition in enumerate(topic.partitions):
            mine = row.get(index)
            if index < len(old) and partition is old[index] and not (reconfigured and mine is not None):
                continue
            if self._me not in partition.replicas:
                self._offline.discard(TopicPartition(topic.name, index))
                if mine is not None:
                    del row[index]
                    self.queue.drop(topic.topic_id, mine)
            elif mine is not None:
                self.queue.assign(topic.topic_id, index)
            elif TopicPartition(topic.name, index) not in self._offline:
                self.queue.open(topic.topic_id, index)

    def _assign_if_wanted(self, topic_id: UUID, index: int) -> None:
        topic = self._topics.get(topic_id)
        # The partition may have changed again or been removed since it was queued.
        mine = None if topic is None else self._rows[topic_id].get(index)
        if topic is not None and mine is not None:
            self._follow_partition(topic, index, mine)

    def _follow_partition(self, topic: TopicImage, index: int, mine: Partition) -> None:
        """Role and settings may both have changed since the last image. A new role must not use old settings,
        and an old role must not use new settings. A leader that remains one gets a lower minimum of copies
        last, and a higher one first: see :meth:`_safe_limits`.
        """
        partition = topic.partitions[index]
        before, mine.followed = mine.followed, Followed(partition, topic.configs, self._settings)
        if before is None or before.has_other_settings(mine.followed):
            self._end_role(mine, partition)
            self._reconfigure_one(topic, index, mine)
        if before is None or partition is not before.partition:
            self._assigner(partition).assign(mine, partition)
            self._update_seal(mine, topic, partition)
        limits = self._limits(mine.config, partition)
        if limits != mine.replica.limits:
            mine.driver.set_limits(limits)

    def _safe_limits(self, mine: Partition, config: TopicConfig, partition: PartitionImage) -> Limits:
        """The new limits, with the larger one of the old and the new minimum of copies, until the in-sync set
        is the new one, too. With the lower minimum and its old set, a leader would commit what only that set
        holds; but the set was below the minimum when others became eligible, which lack these records. With
        the old minimum and a new, smaller set it would do the same.
        """
        limits = self._limits(config, partition)
        return limits._replace(min_in_sync=max(limits.min_in_sync, mine.replica.limits.min_in_sync))

    def _end_role(self, mine: Partition, partition: PartitionImage) -> None:
        """A replaced leader stops leading before it gets newer settings. If those require fewer copies per
        acknowledgement, it would treat its own tail, which its successor never had, as committed.
        """
        driver, replica = mine.driver, mine.replica
        if partition.leader_epoch <= replica.epoch or not self._assigner(partition).end_votes(driver):
            return
        if replica.role is Role.LEADER:
            driver.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)

    def may_be_succeeded(self, topic_id: UUID, index: int) -> bool:
        """Whether this broker leads the partition, but refuses clients: see :meth:`Partition.has_doubts`."""
        mine = self._rows.get(topic_id, {}).get(index)
        return mine is not None and mine.has_doubts

    def take_settings(self, mine: Partition, partition: PartitionImage) -> None:
        """Apply the settings of topic and partition, for modes whose leader the controllers appoint."""
        driver, replica = mine.driver, mine.replica
        limits, uncounted = self._safe_limits(mine, mine.config, partition), frozenset(partition.uncounted)
        if (limits, uncounted) != (replica.limits, replica.uncounted):
            self._end_role(mine, partition)
            driver.set_limits(limits, uncounted)
        complete = frozenset((*partition.in_sync, *partition.eligible))
        driver.successors.update(self._successors(mine.config, partition), complete)

    @property
    def orphaning(self) -> AbstractSet[int]:
        """Brokers that have ended and cannot be fenced, because a majority of the controllers has ended, too.
        Not empty: no leader is appointed by the controllers.
        """
        return self._orphaning

    def is_stand_in(self, partition: PartitionImage) -> bool:
        """Whether this broker serves consumers without leading. A leader does so if it may have a successor
        (:meth:`Partition.stands_in`).
        """
        undecided = bool(self._orphaning)
        if acting_leader(partition) == self._me:
            return undecided
        there = frozenset(partition.replicas) - self._orphaning
        named = stand_in(partition, there, undecided=undecided)
        return partition.leader != self._me and named != NO_BROKER

    def stand_in_for(self, orphaning: AbstractSet[int]) -> None:
        """Some leaders have ended, and there is no majority of controllers to fence them. Other replicas then
        serve consumers without a decision of a controller. That is safe, because they serve only confirmed
        records.
        """
        if orphaning == self._orphaning:
            return
        self._orphaning = frozenset(orphaning)
        for topic in self._topics.values():
            for index, mine in self._rows[topic.topic_id].items():
                followed, driver = mine.followed, mine.driver
                partition = topic.partitions[index] if followed is None else followed.partition
                driver.stand_in.told(self.is_stand_in(partition))
                confirm_as_stand_in(driver, partition)

    def _update_seal(self, mine: Partition, topic: TopicImage, partition: PartitionImage) -> None:
        """Before the mode of a topic changes, its leaders seal their logs: they report which replicas have
        all records.
        """
        if not mine.driver.has_adopted(MODES[partition.mode]):
            return  # It still votes, in an epoch above the appointed leader's. Its seal must stay valid.
        wanted = mode_of(topic.configs) != partition.mode
        mine.driver.seal.update(wanted=wanted, since_epoch=partition.mode_epoch)

    def _successors(self, config: TopicConfig, partition: PartitionImage) -> frozenset[int]:
        """The replicas that could become leader instead of this broker."""
        able = (*partition.in_sync, *partition.eligible)
        if config.unclean_leader_election_enable:
            able = partition.replicas
        return frozenset(able) - {self._me}

    @property
    def all_assigned(self) -> bool:
        """Whether every open replica has the role that the metadata gives it."""
        return self.queue.all_assigned

    @property
    def all_open(self) -> bool:
        """Whether all known partitions are open with their roles, and all removed ones are dropped."""
        return self.queue.all_open

    def when_open(self, callback: Callable[[], None]) -> None:
        """Call back when all known partitions are open."""
        self.queue.when_open(callback)

    @property
    def metadata_failed(self) -> bool:
        """Whether the metadata log, which is on the same disk, takes no writes. On a full disk it is often
        the first one, and then the broker gives up its session.
        """
        return self._ports.metadata_failed()

    @property
    def has_failed_logs(self) -> bool:
        """Whether a log could not be opened or has failed since, that of the metadata included. Records that
        its recovery truncated may reappear after a restart.
        """
        return (
            bool(self._offline)
            or self.metadata_failed
            or any(partition.log.failure is not None for partition in self)
        )

    def _open_if_wanted(self, topic_id: UUID, index: int) -> None:
        topic = self._topics.get(topic_id)
        # Both may have changed while this was in the queue.
        if topic is None or index in self._rows[topic_id]:
            return
        if self._me in topic.partitions[index].replicas and not self._must_note_loss(topic, index):
            self._open(topic, index)

    def _must_note_loss(self, topic: TopicImage, index: int) -> bool:
        """Whether the log is missing and the loss must be recorded before it is opened."""
        key = topic.topic_id, index
        name = TopicPartition(topic.name, index)

        def noted() -> None:
            self.queue.open(*key)
            self.queue.begin()

        partition = topic.partitions[index]
        has_log = partial(self._logs.has_log, name, topic.topic_id)
        return self._assigner(partition).awaits_note(key, partition, has_log, noted)

    def _open(self, topic: TopicImage, index: int) -> None:
        name = TopicPartition(topic.name, index)
        image = topic.partitions[index]
        try:
            config = self._topic_config(topic, image)
            log = self._logs.open_log(name, topic.topic_id, config, self._services.now_ms())
        except TidelogError as error:
            logger.error("partition %s is offline: %s", name, error.message)
            self._offline.add(name)
            self._ports.on_offline(topic.topic_id, index)
            return
        self._limit_producers(log)
        replica = Replica(
            self._me,
            log,
            MODES[image.mode].policy,
            self._limits(config, image),
            self._logs.high_watermark(name),
            log_confirmed=self._logs.was_log_confirmed(name) and not log.damage,
        )
        driver = ReplicaDriver(
            (topic.topic_id, index), log, replica, self._services, self._host,
            lambda offset: self._logs.lower_claims(name, offset),
        )  # fmt: skip
        driver.adopt(MODES[image.mode])
        self._host.add(driver)
        driver.throttle(throttled_followers(config.leader_replication_throttled_replicas, index))
        ports = self._ports
        mine = Partition(
            name, driver, config, ports.alone, self._role_changed, ports.may_be_decided, ports.is_certain
        )
        mine.followed = Followed(image, topic.configs, self._settings)
        self._rows[topic.topic_id][index] = mine
        if log.damage:
            self._came_back_damaged(driver, image)
        self._assigner(image).assign(mine, image)
        self._update_seal(mine, topic, image)

    def _came_back_damaged(self, driver: ReplicaDriver, image: PartitionImage) -> None:
        if image.replicas == (self._me,):
            # No replica has the missing records and no other can lead, so the remaining ones are served.
            logger.error("%s: the only replica lost records: %s", driver.key, driver.log.damage)
            driver.log.damage_is_known()
        else:
            driver.damage.came_back()

    def _is_log_confirmed(self, name: TopicPartition) -> bool:
        mine = self._rows.get(name.topic, {}).get(name.partition)
        return mine is not None and mine.replica.watermark.log_confirmed

    def _role_changed(self, partition: Partition) -> None:
        for listener in self.on_role:
            listener(partition)

    def _drop_topic(self, topic: TopicImage) -> None:
        row = self._rows.pop(topic.topic_id)
        # A topic of the same name may have been created in the same step; its row must stay.
        if self._rows.get(topic.name) is row:
            del self._rows[topic.name]
            del self._ids[topic.name]
        for partition in row.values():
            self.queue.drop(topic.topic_id, partition)
        for index in range(len(topic.partitions)):
            self._offline.discard(TopicPartition(topic.name, index))

    def _drop(self, topic_id: UUID, partition: Partition) -> None:
        self._host.remove((topic_id, partition.name.partition), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.quorum.gone(partition.driver)
        try:
            self._logs.remove_log(partition.name, self._services.now_ms())
        except TidelogError as error:
            logger.error("%s cannot be removed from disk: %s", partition.name, error.message)

    def _reconfigure_one(self, topic: TopicImage, index: int, partition: Partition) -> None:
        image = topic.partitions[index]
        config = self._topic_config(topic, image)
        partition.reconfigure(config, self._safe_limits(partition, config, image))
        successors = partition.driver.successors
        successors.update(self._successors(config, image), successors.complete)
        named = config.leader_replication_throttled_replicas
        partition.driver.throttle(throttled_followers(named, index))
        self._limit_producers(partition.log)
        self._update_seal(partition, topic, image)

    def _limits(self, config: TopicConfig, partition: PartitionImage) -> Limits:
        replicas = len(partition.replicas) - len(partition.uncounted)
        return limits_of(config, replicas, self._settings.replica_lag_time_max_ms)

    def _limit_producers(self, log: Log) -> None:
        log.producers.expiration_ms = self._settings.producer_id_expiration_ms
        log.producers.producers_max = self._settings.producer_ids_per_partition_max

    def _topic_config(self, topic: TopicImage, partition: PartitionImage) -> TopicConfig:
        """The settings of a partition. While the topic's mode changes, they are those of its current mode."""
        overrides = topic.configs
        if mode_of(overrides) != partition.mode:
            overrides = {**overrides, REPLICATION_MODE: partition.mode}
        return TopicConfig.resolve(overrides, self._settings)

    @property
    def _settings(self) -> BrokerConfig:
        if self._config is None:
            raise TidelogError("no configuration yet")
        return self._config
