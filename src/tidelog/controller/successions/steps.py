"""The parts of every succession: the rules of a topic, and the steps that a partition can take."""

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
"""The controllers start this far above the last election that they know of. Replicas may keep electing
leaders until they learn of the change, and no epoch may be led twice.
"""


class Rules(NamedTuple):
    """The topic's settings that a succession needs."""

    min_in_sync: int
    unclean_allowed: bool
    # Acknowledged records are synced: a machine that lost power has lost no acknowledged record.
    synced: bool = False
    mode: str | None = None  # the wanted mode of the topic; None: as it is
    # The modes in which acknowledged records are synced, given the topic's other settings.
    synced_modes: frozenset[str] = frozenset()
    degrades: bool = False  # if too few replicas keep up, fewer copies are enough


RulesOf = Callable[[TopicImage], Rules]


def minimum(partition: PartitionImage, rules: Rules) -> int:
    """How many members must be in sync before anything is committed.

    Never more than the leader itself requires: otherwise members that left would count as complete while the
    leader kept committing without them. So replicas that are being removed do not count.
    """
    return min(rules.min_in_sync, len(partition.target))


def serves(partition: PartitionImage, replica: int, available: BrokerAvailability) -> bool:
    return replica in available.unfenced and replica not in partition.offline


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
        # A new epoch also when the leadership ends: later messages of the old leader must be refused.
        leader_epoch=partition.leader_epoch if same_leader else partition.leader_epoch + 1,
        in_sync=in_sync,
        eligible=eligible,
        last_leader=partition.last_leader if leader == NO_BROKER else leader,
        unclean_epoch=partition.leader_epoch + 1 if unclean and not same_leader else partition.unclean_epoch,
    )


def finish_move(partition: PartitionImage) -> PartitionImage:
    """Complete a reassignment: only the replicas of the target remain. The mode decides when: acknowledged
    records must have enough copies without those that leave.
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
    """A replica may lack records that it acknowledged. Nothing has to be recorded: it is not a member until
    it has caught up. If it led, its epoch ends.
    """
    return msgspec.structs.replace(
        partition, leader_epoch=partition.leader_epoch + (partition.leader == replica)
    )


def last_complete(partition: PartitionImage, replica: int, *, empty: bool, tail: bool) -> int:
    """Every member holds everything, so the last one that was complete can take the place of the last leader.

    A replica that lost synced records cannot: replicas that left the in-sync set long ago may have kept more
    of them. One that lost only its unsynced tail has kept more than those that lost data before it.
    """
    if empty or not tail:
        return last_leader_kept(partition, replica, empty=True, tail=tail)
    was_last = {*partition.in_sync, *partition.eligible} == {replica}
    return replica if was_last else partition.last_leader


def last_leader_kept(partition: PartitionImage, replica: int, *, empty: bool, tail: bool) -> int:
    """Where a member may lack acknowledged records, the last leader alone may have held everything: no other
    replica takes its place here. If its disk was replaced, an operator has to know.
    """
    last = partition.last_leader
    return NO_BROKER if empty and last == replica else last


def from_before(partition: PartitionImage, before: tuple[int, ...]) -> tuple[int, ...]:
    """A replica that the present reassignment added is dropped at once."""
    return before


def all_present(partition: PartitionImage, before: tuple[int, ...]) -> tuple[int, ...]:
    """Where a member may lack acknowledged records, no replica leaves before the target has them: a new
    replica of an earlier reassignment may be the leader by now, or hold the second copy.
    """
    return partition.replicas


def in_a_new_epoch(partition: PartitionImage) -> PartitionImage:
    """A replica has lost records, or is added. The leader may still count it as holding everything it had
    acknowledged, and would let it join at once. In a new epoch earlier fetches do not count, nor do those of
    a replica that does not know of the epoch.

    If the leader is still copying back records, decisions about it remain valid.
    """
    if partition.leader == NO_BROKER:
        return partition
    epoch, unclean = partition.leader_epoch + 1, partition.unclean_epoch
    if is_restoring(partition) and unclean == partition.leader_epoch:
        unclean = epoch
    return msgspec.structs.replace(partition, leader_epoch=epoch, unclean_epoch=unclean)


def is_restoring(partition: PartitionImage) -> bool:
    """Whether the leader is still copying back records from other replicas."""
    return partition.leader not in (NO_BROKER, *partition.in_sync)


def may_not_be_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    return False


def is_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    return partition.leader in partition.in_sync


def no_stand_in(partition: PartitionImage, present: AbstractSet[int], *, undecided: bool) -> int:
    return NO_BROKER


def all_replicas(partition: PartitionImage) -> AbstractSet[int]:
    return frozenset(partition.replicas)


def as_it_is(partition: PartitionImage, *, founded: bool) -> PartitionImage:
    return partition


def no_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    raise TidelogError("the mode of this partition has no in-sync set", ErrorCode.INVALID_REQUEST)


def check_leader(partition: PartitionImage, leader: int, leader_epoch: int, partition_epoch: int) -> None:
    """Check that a leader that sends a request knows the partition's present state. Raises the refusal."""
    if (partition.leader, partition.leader_epoch) != (leader, leader_epoch):
        raise TidelogError("the leader or its epoch has changed", ErrorCode.FENCED_LEADER_EPOCH)
    if partition.partition_epoch != partition_epoch:
        raise TidelogError("the partition has changed since", ErrorCode.INVALID_UPDATE_VERSION)


class LeaderReport(NamedTuple):
    """The winner of an election reports it; or a voter reports the epoch in which it has voted."""

    leader: int  # NO_BROKER: the report is of a voter, sent while the controllers appointed leaders
    epoch: int
    voters: tuple[int, ...]  # empty if the set may be truncated again
    counted: tuple[int, ...]  # those of them that have not lost anything


NextState = Callable[[PartitionImage], PartitionImage]
"""Gives the next state of a partition after a change."""


def outvoted(partition: PartitionImage, report: LeaderReport, to_next_state: NextState) -> PartitionImage:
    """Voters had reached a higher epoch than the controllers assumed when they took over: repeat the change
    above the voters' epoch. Voters ignore an epoch below their own, and would not follow.
    """
    if report.epoch < partition.leader_epoch:
        raise TidelogError("the replicas do not vote any more", ErrorCode.FENCED_LEADER_EPOCH)
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
        # A replica that was removed, or restarts, is not offline any more.
        unwritable=[replica for replica in new.unwritable if replica in new.offline],
        ending=new.ending and new.is_moving,
        voters=list(new.voters),
    )
