"""What every way of succession is made of: the rules of a topic, and the steps a partition can take."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.controller.records import PartitionChanged
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

EPOCHS_AHEAD = 1000
"""By so much the controllers begin above the last election they have heard of. Replicas may go on voting for
each other until they hear of the change, and no epoch may be led twice."""


class Rules(NamedTuple):
    """The topic's settings that decide here."""

    min_in_sync: int
    unclean_allowed: bool
    # An ok means "on disk": a machine that lost power has forgotten nothing that counts.
    synced: bool = False
    mode: str | None = None  # How the topic shall be replicated. None: as it is.
    # The modes in which an ok means "on disk", with the topic's other settings as they are.
    synced_modes: frozenset[str] = frozenset()
    degrades: bool = False  # Where too few copies keep up, fewer are enough.


RulesOf = Callable[[TopicImage], Rules]


def minimum(partition: PartitionImage, rules: Rules) -> int:
    """How many must be in sync before anything is committed.

    Never more than the leader itself demands, or members that left would be taken for complete while it went
    on committing without them: so what is on its way out does not count.
    """
    return min(rules.min_in_sync, len(partition.target))


def serves(partition: PartitionImage, replica: int, available: BrokerAvailability) -> bool:
    return replica in available.serving and replica not in partition.offline


def led_by(
    partition: PartitionImage,
    leader: int,
    in_sync: tuple[int, ...],
    eligible: tuple[int, ...],
    *,
    unclean: bool = False,
) -> PartitionImage:
    same_leader = leader == partition.leader
    return msgspec.structs.replace(
        partition,
        leader=leader,
        # A new epoch also when the leadership ends: what the old leader still says must be refused.
        leader_epoch=partition.leader_epoch if same_leader else partition.leader_epoch + 1,
        in_sync=in_sync,
        eligible=eligible,
        last_leader=partition.last_leader if leader == NO_BROKER else leader,
        unclean_epoch=partition.leader_epoch + 1 if unclean and not same_leader else partition.unclean_epoch,
    )


def finish_move(partition: PartitionImage) -> PartitionImage:
    """Only the replicas of the target are left. When that may be is a matter of the mode: what is
    acknowledged must have its copies without those that leave.
    """
    target = partition.target
    return msgspec.structs.replace(
        partition,
        replicas=target,
        adding=(),
        removing=(),
        ending=False,
        voters=(),
        in_sync=tuple(replica for replica in partition.in_sync if replica in target),
        eligible=tuple(replica for replica in partition.eligible if replica in target),
        offline=tuple(replica for replica in partition.offline if replica in target),
    )


def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
    """A replica may lack what it acknowledged. There is nothing to remember: it is no member until it has
    caught up. If it led, its epoch is over.
    """
    return msgspec.structs.replace(
        partition, leader_epoch=partition.leader_epoch + (partition.leader == replica)
    )


def in_a_new_epoch(partition: PartitionImage) -> PartitionImage:
    """A replica has lost what it held, or comes: the leader may take it for one that holds all it had
    acknowledged, and would have it join at once. In a new epoch nothing counts that was fetched before, or by
    one that has not heard of it.

    What was decided about a leader that still gathers what others hold stays decided.
    """
    if partition.leader == NO_BROKER:
        return partition
    epoch, unclean = partition.leader_epoch + 1, partition.unclean_epoch
    if is_restoring(partition) and unclean == partition.leader_epoch:
        unclean = epoch
    return msgspec.structs.replace(partition, leader_epoch=epoch, unclean_epoch=unclean)


def is_restoring(partition: PartitionImage) -> bool:
    """Whether the leader still gathers what others hold."""
    return partition.leader not in (NO_BROKER, *partition.in_sync)


def is_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    return partition.leader in partition.in_sync


def nobody(partition: PartitionImage, present: AbstractSet[int]) -> int:
    return NO_BROKER


def all_replicas(partition: PartitionImage) -> AbstractSet[int]:
    return frozenset(partition.replicas)


def as_it_is(partition: PartitionImage, *, founded: bool) -> PartitionImage:
    return partition


def no_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    raise TidelogError("no leader of this partition keeps an in-sync set", ErrorCode.INVALID_REQUEST)


def check_leader(partition: PartitionImage, leader: int, leader_epoch: int, partition_epoch: int) -> None:
    """Whether a leader that speaks of the partition knows its present state. Raises the refusal."""
    if (partition.leader, partition.leader_epoch) != (leader, leader_epoch):
        raise TidelogError("another leader or epoch by now", ErrorCode.FENCED_LEADER_EPOCH)
    if partition.partition_epoch != partition_epoch:
        raise TidelogError("the partition has changed meanwhile", ErrorCode.INVALID_UPDATE_VERSION)


class LeaderReport(NamedTuple):
    """The winner of an election tells of it."""

    leader: int
    epoch: int
    voters: tuple[int, ...]  # empty where it may be taken back
    counted: tuple[int, ...]  # those of them who have not forgotten anything


Settle = Callable[[PartitionImage], PartitionImage]
"""The next state of a partition that was changed."""


def outvoted(partition: PartitionImage, report: LeaderReport, settle: Settle) -> PartitionImage:
    """Voters were further than the controllers had thought when these took over: the same again, above their
    epoch. Those who voted do not hear of an epoch below theirs, and would not follow.
    """
    if report.epoch < partition.leader_epoch:
        raise TidelogError("nobody votes any more", ErrorCode.FENCED_LEADER_EPOCH)
    return msgspec.structs.replace(partition, leader_epoch=report.epoch + EPOCHS_AHEAD)


def union(first: tuple[int, ...], second: tuple[int, ...], *, without: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in dict.fromkeys((*first, *second)) if replica not in without)


def record_of(topic_id: UUID, index: int, new: PartitionImage) -> PartitionChanged:
    return PartitionChanged(
        topic_id,
        index,
        new.leader,
        new.leader_epoch,
        list(new.in_sync),
        list(new.eligible),
        new.last_leader,
        unclean=new.unclean_epoch == new.leader_epoch,
        replicas=list(new.replicas),
        offline=list(new.offline),
        adding=list(new.adding),
        removing=list(new.removing),
        mode=new.mode,
        mode_epoch=new.mode_epoch,
        heir=new.heir,
        losses=list(new.losses),
        unsynced=list(new.unsynced),
        copies=new.copies,
        promise_epoch=new.promise_epoch,
        synced_since=new.synced_since,
        # A replica that is moved away, or starts anew, is not offline any more.
        unwritable=[replica for replica in new.unwritable if replica in new.offline],
        ending=new.ending and new.is_moving,
        voters=list(new.voters),
    )
