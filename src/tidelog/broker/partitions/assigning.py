"""Applies metadata changes to a replica. There is one assigner for modes whose leaders the controllers
appoint and one for modes whose replicas elect their leader; :mod:`tidelog.replication.modes` says which
one a mode uses.
"""

import logging
from collections.abc import Callable
from typing import Protocol, cast
from uuid import UUID

import msgspec

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import acting_leader
from tidelog.errors import StorageError
from tidelog.replication.attachments.restorer import Mandate
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host
from tidelog.replication.modes import MODES
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)

Key = tuple[UUID, int]


class Assigner(Protocol):
    def end_votes(self, driver: ReplicaDriver) -> bool:
        """The metadata has a later epoch than the replica: end its election if the controllers appoint the
        leader. Returns whether the replica's role ends, too.
        """

    def assign(self, mine: Partition, partition: PartitionImage) -> None:
        """Apply the current metadata of the partition."""

    def newest(self, key: Key, partition: PartitionImage) -> PartitionImage:
        """The partition with the newest leader known to this broker; with none if that is this broker and it
        does not lead any more.
        """

    def awaits_note(
        self, key: Key, partition: PartitionImage, has_log: Callable[[], bool], noted: Callable[[], None]
    ) -> bool:
        """Whether a loss must be recorded on disk before the log may be opened; calls ``noted`` then."""


class SettingsTable(Protocol):
    """The settings of a partition, as the table has them."""

    def take_settings(self, mine: Partition, partition: PartitionImage) -> None: ...

    def is_stand_in(self, partition: PartitionImage) -> bool: ...

    def may_be_succeeded(self, topic_id: UUID, index: int) -> bool: ...


class AppointedAssigner:
    """The controllers appoint the leader."""

    def __init__(self, host: Host, quorum: QuorumPartitions, table: SettingsTable) -> None:
        self._me = host.me
        self._host = host
        self._quorum = quorum
        self._table = table

    def end_votes(self, driver: ReplicaDriver) -> bool:
        self._quorum.dissolve(driver)
        return True

    def assign(self, mine: Partition, partition: PartitionImage) -> None:
        driver = mine.driver
        if partition.leader_epoch < driver.replica.epoch:
            self._quorum.outvoted(driver, partition)
            return
        self._quorum.dissolve(driver)
        if self._me not in partition.in_sync and self._me not in partition.eligible:
            self._quorum.not_relied_on(cast(Key, driver.key))
        driver.adopt(MODES[partition.mode])
        self._table.take_settings(mine, partition)
        driver.set_unclean_epoch(partition.unclean_epoch)
        driver.stand_in.told(self._table.is_stand_in(partition))
        self._play(driver, partition)
        stand_in(driver, partition)

    def _play(self, driver: ReplicaDriver, partition: PartitionImage) -> None:
        """Lead, restore or follow, as the metadata says."""
        replica, replicas, epoch = driver.replica, partition.replicas, partition.leader_epoch
        leads, is_member = partition.leader == self._me, self._me in partition.in_sync
        if not leads or is_member:
            driver.end_restoring()
        if leads and not is_member:
            self._host.restore(driver, _mandate(partition))
        elif leads:
            if not replica.has_resigned(epoch):
                driver.lead(epoch, replicas, partition.in_sync, partition.partition_epoch)
        elif (epoch, partition.leader) != (replica.epoch, replica.leader):
            driver.follow(epoch, partition.leader, replicas, partition.partition_epoch)

    def newest(self, key: Key, partition: PartitionImage) -> PartitionImage:
        """Without a leader if this broker is the leader and may have been replaced: it refuses clients, so it
        must not send them to itself.
        """
        if partition.leader == self._me and self._table.may_be_succeeded(*key):
            return msgspec.structs.replace(partition, leader=NO_BROKER)
        return partition

    def awaits_note(
        self, key: Key, partition: PartitionImage, has_log: Callable[[], bool], noted: Callable[[], None]
    ) -> bool:
        return False


class ElectedAssigner:
    """The replicas elect their leader; the metadata contains only the replicas."""

    def __init__(
        self,
        quorum: QuorumPartitions,
        on_offline: Callable[[UUID, int], None],
        on_lost: Callable[[UUID, int], None],
    ) -> None:
        """``on_lost`` is called when the log of a voter was missing and was replaced by an empty one."""
        self._quorum = quorum
        self._on_offline = on_offline
        self._on_lost = on_lost

    def end_votes(self, driver: ReplicaDriver) -> bool:
        return not self._quorum.has(driver)

    def assign(self, mine: Partition, partition: PartitionImage) -> None:
        driver = mine.driver
        driver.adopt(MODES[partition.mode])
        key = cast(Key, driver.key)
        try:
            begins = self._quorum.assign(driver, partition)
        except StorageError as error:
            # A replica that does not know how it voted must not vote.
            logger.error("partition %s is offline: %s", mine.name, error.message)
            self._on_offline(*key)
            return
        if begins and self._quorum.is_lost(key):
            # It does not vote until the controllers have numbered the loss, even if it is an old one.
            self._on_lost(*key)

    def newest(self, key: Key, partition: PartitionImage) -> PartitionImage:
        """An election is added to the metadata log only afterwards, so other sources may be newer."""
        return self._quorum.view(key, partition)

    def awaits_note(
        self, key: Key, partition: PartitionImage, has_log: Callable[[], bool], noted: Callable[[], None]
    ) -> bool:
        """If the log of a voter is missing, the loss is recorded before the log is opened: afterwards there
        is an empty log, and the loss could not be detected any more.
        """
        try:
            gone = self._quorum.has_voted(key) and not has_log()
        except StorageError:
            return False  # Opening the log will fail as well.
        if not gone or self._quorum.has_noted(key):
            return False
        logger.error("%s: its directory is missing; it does not vote until it is readmitted", key)
        self._quorum.note_missing(key, partition, noted)
        return True


def stand_in(driver: ReplicaDriver, partition: PartitionImage) -> None:
    """Confirm the replica as stand-in, unless an unclean election by an operator came later. Only if the
    metadata says that there is no leader: a replica that knows that knows every earlier change of the
    settings. If the leader was merely seen to have ended, it may have required more copies than this replica
    knows of.
    """
    if acting_leader(partition) == NO_BROKER and partition.unclean_epoch <= partition.acted_epoch:
        driver.stand_in.stand_in(partition.acted_epoch)


def _mandate(partition: PartitionImage) -> Mandate:
    # An offline replica may have dropped damaged records and not have reported it yet.
    sound = frozenset((*partition.in_sync, *partition.eligible)) - set(partition.offline)
    epoch = partition.leader_epoch
    return Mandate(
        epoch,
        partition.replicas,
        partition.partition_epoch,
        partition.last_leader,
        sound,
        partition.unclean_epoch == epoch,
        partition.copies,
        partition.acted_epoch,
    )
