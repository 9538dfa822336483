"""The leader of a partition when brokers start and fail: one module per replication mode, an image in, an
image out.

The rest of the code never checks which mode a partition has; it asks for the partition's next state. If the
topic wants another mode, that is also a step towards it.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.placement import spreading
from tidelog.controller.placement_groups import Serves, all_away, primary_away, spreading_groups
from tidelog.controller.successions import isr, mode_changes, primary_backup, quorum, steps
from tidelog.controller.successions.promising import promised
from tidelog.controller.successions.steps import LeaderReport, NextState, Rules, finish_move, led_by
from tidelog.types import NO_BROKER


class Succession(NamedTuple):
    """The rules of one mode. The defaults apply to most modes."""

    next_state: Callable[[PartitionImage, BrokerAvailability, Rules], PartitionImage]
    # What an operator can force when no replica can lead without a possible loss.
    force: Callable[[PartitionImage, BrokerAvailability, Rules], PartitionImage]
    # The partition with another in-sync set.
    with_members: Callable[[PartitionImage, tuple[int, ...], Rules], PartitionImage] = steps.no_members
    # Whether there is a leader, or will be one.
    is_led: Callable[[PartitionImage, BrokerAvailability], bool] = steps.is_led
    # Whether a leader that was given up may still act on its session, so that no other may be forced yet.
    may_be_led: Callable[[PartitionImage, BrokerAvailability], bool] = steps.may_not_be_led
    is_restoring: Callable[[PartitionImage], bool] = steps.is_restoring
    # The replica that serves readers while there is no leader.
    stand_in: Callable[..., int] = steps.no_stand_in
    # How the controller moves leadership from one member to another; None: it cannot.
    hand_over: Callable[[PartitionImage, int], PartitionImage] | None = None
    lost: Callable[..., PartitionImage] = steps.lost
    in_a_new_epoch: Callable[[PartitionImage], PartitionImage] = steps.in_a_new_epoch
    told: Callable[[PartitionImage, LeaderReport, NextState], PartitionImage] = steps.outvoted
    check_leader: Callable[[PartitionImage, int, int, int], None] = steps.check_leader
    # Replicas for which a leader's report, however old, can still be true.
    unforgetful: Callable[[PartitionImage], AbstractSet[int]] = steps.all_replicas
    # Applied last to every new state. ``founded``: the mode begins with this state.
    finished: Callable[..., PartitionImage] = steps.as_it_is
    # The replicas that a reassignment removes, unless they are in its target.
    leavers: Callable[[PartitionImage, tuple[int, ...]], tuple[int, ...]] = steps.from_before
    # The last leader that held everything, after a replica may have lost records.
    last_leader_without: Callable[..., int] = steps.last_complete
    # Whether replicas of a new topic are eligible though their brokers are unavailable: all replicas start
    # empty.
    away_counts: bool = False
    # How the replicas of new partitions are placed.
    spreading: Callable[..., Iterator[list[int]]] = spreading
    # Why a new partition, of this number and with these replicas, would have no leader; empty: it would have
    # one.
    placement_problem: Callable[[int, Sequence[int], Serves], str] = all_away


BY_MODE: dict[str, Succession] = {
    ISR: Succession(
        isr.next_state,
        isr.force,
        isr.with_members,
        may_be_led=isr.may_be_led,
        stand_in=isr.stand_in,
        hand_over=lambda partition, leader: led_by(partition, leader, partition.in_sync, partition.eligible),
    ),
    PRIMARY_BACKUP: Succession(
        primary_backup.next_state,
        primary_backup.force,
        primary_backup.with_members,
        stand_in=primary_backup.stand_in,
        leavers=steps.all_present,
        last_leader_without=steps.last_leader_kept,
        spreading=spreading_groups,
        placement_problem=primary_away,
    ),
    QUORUM: Succession(
        quorum.next_state,
        quorum.force,
        is_led=quorum.is_led,
        is_restoring=quorum.no_restoring,
        stand_in=quorum.stand_in,
        hand_over=quorum.hand_over,
        lost=quorum.lost,
        in_a_new_epoch=quorum.no_new_epoch,
        told=quorum.told,
        check_leader=quorum.any_leader,
        unforgetful=quorum.unforgetful,
        finished=quorum.numbered,
        leavers=steps.all_present,
        last_leader_without=steps.last_leader_kept,
        away_counts=True,
    ),
}
"""``replication.mode`` → its rules. A mode is added by a row."""


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers started or failed. Equal to the present one if nothing has to change."""
    assigned = BY_MODE[partition.mode].next_state(partition, available, rules)
    stepped = mode_changes.step(assigned, available, rules.mode)
    new = stepped if stepped is partition else promised(partition, rules, stepped, rules)
    return BY_MODE[new.mode].finished(new, founded=new.mode_epoch != partition.mode_epoch)


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition with another in-sync set, as its leader proposes."""
    return BY_MODE[partition.mode].with_members(partition, members, rules)


def told(
    partition: PartitionImage, report: LeaderReport, available: BrokerAvailability, rules: Rules
) -> PartitionImage:
    """The replicas have elected a leader. Raises if the report is outdated."""
    return BY_MODE[partition.mode].told(partition, report, lambda new: next_state(new, available, rules))


def check_leader(partition: PartitionImage, leader: int, leader_epoch: int, partition_epoch: int) -> None:
    """Check that a leader that sends a request knows the partition's present state. Raises the refusal."""
    BY_MODE[partition.mode].check_leader(partition, leader, leader_epoch, partition_epoch)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition with a leader that may lack acknowledged records."""
    return BY_MODE[partition.mode].force(partition, available, rules)


def is_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    """Whether there is a leader or will be one, so that nothing has to be forced."""
    return BY_MODE[partition.mode].is_led(partition, available)


def acting_leader(partition: PartitionImage) -> int:
    """The replica that accepts writes now; -1 also while the leader is still copying back records."""
    return NO_BROKER if is_restoring(partition) else partition.leader


def is_restoring(partition: PartitionImage) -> bool:
    """Whether the leader is still copying back records from other replicas."""
    return BY_MODE[partition.mode].is_restoring(partition)


def stand_in(partition: PartitionImage, present: AbstractSet[int], *, undecided: bool = False) -> int:
    """Which of the ``present`` replicas serves readers while there is no leader; -1: none. ``undecided``: a
    majority of the controllers has ended, so no leader is appointed.
    """
    if acting_leader(partition) in present:
        return NO_BROKER
    return BY_MODE[partition.mode].stand_in(partition, present, undecided=undecided)


def may_be_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    """Whether a leader that was given up may still act on its session, so that no other may be forced yet."""
    return BY_MODE[partition.mode].may_be_led(partition, available)


def can_hand_over(partition: PartitionImage) -> bool:
    """Whether the controller may move the leadership to another member."""
    return BY_MODE[partition.mode].hand_over is not None


def hand_over(partition: PartitionImage, leader: int) -> PartitionImage:
    """Another member leads from the next epoch on, or is asked to. The in-sync set stays the same."""
    way = BY_MODE[partition.mode].hand_over
    return partition if way is None else way(partition, leader)


def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
    """The partition after a replica may have lost records that it acknowledged."""
    return BY_MODE[partition.mode].lost(partition, replica, tail=tail)


def unforgetful(partition: PartitionImage) -> AbstractSet[int]:
    """Replicas for which a leader's report, however old, can still be true."""
    return BY_MODE[partition.mode].unforgetful(partition)


def away_counts(mode: str) -> bool:
    """Whether replicas of a new topic are eligible though their brokers are unavailable."""
    return BY_MODE[mode].away_counts


def spreading_of(mode: str) -> Callable[..., Iterator[list[int]]]:
    """How the replicas of a topic in this mode are placed."""
    return BY_MODE[mode].spreading


def placement_problem(mode: str, number: int, replicas: Sequence[int], serves: Serves) -> str:
    """Why a new partition, of this number and with these replicas, would have no leader; else empty."""
    return BY_MODE[mode].placement_problem(number, replicas, serves)


def in_a_new_epoch(partition: PartitionImage) -> PartitionImage:
    """A replica has lost records or is added: fetches from before do not count any more."""
    return BY_MODE[partition.mode].in_a_new_epoch(partition)


def copied(partition: PartitionImage) -> PartitionImage:
    """The partition after its leader has confirmed that its whole log has as many copies as are required, on
    replicas that stay.
    """
    return finish_move(partition) if partition.ending else partition


def leavers(partition: PartitionImage, before: tuple[int, ...]) -> tuple[int, ...]:
    """The replicas that a reassignment removes unless they are in its target; ``before``: the replicas from
    before the present reassignment.
    """
    return BY_MODE[partition.mode].leavers(partition, before)


def last_leader_without(partition: PartitionImage, replica: int, *, empty: bool, tail: bool) -> int:
    """The last leader that held everything, after ``replica`` may have lost records. ``empty``: all of them;
    ``tail``: only those that it had not synced.
    """
    return BY_MODE[partition.mode].last_leader_without(partition, replica, empty=empty, tail=tail)
