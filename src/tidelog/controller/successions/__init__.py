"""Who leads a partition when brokers come and go: one module per replication mode, an image in, an image out.

Nothing outside asks which mode a partition has; it asks for the partition's next state. Where the topic wants
another mode, that is also a step towards it.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

import msgspec

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.controller import mode_changes
from tidelog.controller.image import PartitionImage
from tidelog.controller.standing import Standing
from tidelog.controller.successions import isr, primary_backup, quorum
from tidelog.controller.successions.promising import promised
from tidelog.controller.successions.steps import Rules, finish_move, led_by
from tidelog.types import NO_BROKER

Succession = Callable[[PartitionImage, Standing, Rules], PartitionImage]

BY_MODE: dict[str, Succession] = {
    ISR: isr.next_state,
    PRIMARY_BACKUP: primary_backup.next_state,
    QUORUM: quorum.next_state,
}

FORCED: dict[str, Succession] = {
    ISR: isr.force,
    PRIMARY_BACKUP: primary_backup.force,
    QUORUM: quorum.force,
}
"""What an operator can enforce when nobody can lead without a possible loss."""

IS_LED: dict[str, Callable[[PartitionImage, Standing], bool]] = {QUORUM: quorum.is_led}
"""Where a leader in the metadata does not say enough about whether one acts."""

MEMBERS: dict[str, Callable[[PartitionImage, tuple[int, ...], Rules], PartitionImage]] = {
    ISR: isr.with_members,
    PRIMARY_BACKUP: primary_backup.with_members,
}
"""What another in-sync set means."""

STAND_INS: dict[str, Callable[[PartitionImage, AbstractSet[int]], int]] = {
    PRIMARY_BACKUP: primary_backup.stand_in,
    QUORUM: quorum.stand_in,
}
"""Who serves readers while nobody leads."""

HAND_OVERS: dict[str, Callable[[PartitionImage, int], PartitionImage]] = {
    ISR: lambda partition, leader: led_by(partition, leader, partition.in_sync, partition.eligible),
    QUORUM: quorum.hand_over,
}
"""Modes in which the controller may have a leadership handed from one member to another, and how."""

SELF_ELECTING = frozenset({QUORUM})
"""Modes in which the replicas tell the controller who leads."""

COUNTING_COPIES = frozenset({PRIMARY_BACKUP, QUORUM})
"""Modes in which so many copies are enough, whoever has them: a member may lack what is acknowledged."""


def next_state(partition: PartitionImage, standing: Standing, rules: Rules) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""
    settled = BY_MODE[partition.mode](partition, standing, rules)
    stepped = mode_changes.step(settled, standing, rules.mode)
    new = stepped if stepped is partition else promised(partition, rules, stepped, rules)
    if not elects_itself(new):
        return new
    return quorum.numbered(new, founded=new.mode_epoch != partition.mode_epoch)


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition with another in-sync set, as its leader wants it."""
    return MEMBERS[partition.mode](partition, members, rules)


def force(partition: PartitionImage, standing: Standing, rules: Rules) -> PartitionImage:
    """The partition with somebody who leads, though acknowledged records may be missing then."""
    return FORCED[partition.mode](partition, standing, rules)


def is_led(partition: PartitionImage, standing: Standing) -> bool:
    """Whether somebody leads or will, so that nothing has to be forced."""
    judge = IS_LED.get(partition.mode)
    return partition.leader in partition.in_sync if judge is None else judge(partition, standing)


def acting_leader(partition: PartitionImage) -> int:
    """Who takes writes now; -1 also while the leader does not yet hold what it needs for that."""
    return NO_BROKER if is_restoring(partition) else partition.leader


def is_restoring(partition: PartitionImage) -> bool:
    """Whether the leader still gathers what others hold."""
    if elects_itself(partition):
        return False
    return partition.leader not in (NO_BROKER, *partition.in_sync)


def stand_in(partition: PartitionImage, present: AbstractSet[int]) -> int:
    """Who of those present serves readers while nobody leads; -1 for nobody."""
    choose = STAND_INS.get(partition.mode)
    if choose is None or acting_leader(partition) in present:
        return NO_BROKER
    return choose(partition, present)


def is_appointed(partition: PartitionImage) -> bool:
    """Whether the controller may have the leadership handed to another member."""
    return partition.mode in HAND_OVERS


def hand_over(partition: PartitionImage, leader: int) -> PartitionImage:
    """Another member leads from the next epoch on, or shall; nobody leaves the in-sync set."""
    return HAND_OVERS[partition.mode](partition, leader)


def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
    """The partition as it remembers that a replica may lack what it acknowledged. Where the controllers name
    the leader, there is nothing to remember: the replica is no member until it has caught up.
    """
    return quorum.lost(partition, replica, tail=tail) if elects_itself(partition) else partition


def votes(mode: str) -> bool:
    """Whether the replicas of such a topic elect their leaders."""
    return mode in SELF_ELECTING


def elects_itself(partition: PartitionImage) -> bool:
    """Whether the replicas vote and tell who leads."""
    return partition.mode in SELF_ELECTING


def in_a_new_epoch(partition: PartitionImage) -> PartitionImage:
    """A replica has lost what it held, or comes: the leader may take it for one that holds all it had
    acknowledged, and would have it join at once. In a new epoch nothing counts that was fetched before, or by
    one that has not heard of it. Who votes counts for nothing anyway until it was taken in anew.

    What was decided about a leader that still gathers what others hold stays decided.
    """
    if partition.leader == NO_BROKER or elects_itself(partition):
        return partition
    epoch, unclean = partition.leader_epoch + 1, partition.unclean_epoch
    if is_restoring(partition) and unclean == partition.leader_epoch:
        unclean = epoch
    return msgspec.structs.replace(partition, leader_epoch=epoch, unclean_epoch=unclean)


def copied(partition: PartitionImage) -> PartitionImage:
    """The partition when its leader has confirmed that all of its log has as many copies as are asked for, on
    replicas that stay.
    """
    return finish_move(partition) if partition.ending else partition


def members_hold_all(partition: PartitionImage) -> bool:
    """Whether every member of the in-sync set holds everything that was acknowledged."""
    return partition.mode not in COUNTING_COPIES
