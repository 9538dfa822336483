"""Changing the replication mode of a live topic without losing a record.

The topic's setting is the wanted mode. Each partition changes on its own, as soon as it is safe, by one
metadata record with a new leader epoch per step: a crash leaves a partition before a step or after it.
``isr`` is the hub: a change between two other modes takes two steps.

============== ============== ================================================================================
from           to             safe when, and why
============== ============== ================================================================================
isr            primary-backup the first replica is in sync: it holds everything, and leads from now on
primary-backup isr            the primary has paused, and as many replicas hold its whole log as an
                              acknowledgement requires: they become the members (:func:`sealed`)
isr            quorum         a majority is in sync: every member holds everything that was committed, and the
                              winner of a vote was compared with one of them. A leader that does not know of
                              the change yet needs every member to commit anything more, and members that know
                              of it do not fetch in its epoch any more
quorum         isr            the log is sealed, and a majority holds it: they become the members
============== ============== ================================================================================
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from tidelog.config.modes import ISR, PRIMARY_BACKUP, QUORUM
from tidelog.config.topic import mode_of
from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.controller.records import PartitionChanged
from tidelog.controller.successions.steps import EPOCHS_AHEAD, record_of
from tidelog.errors import InvalidRequest
from tidelog.types import NO_BROKER, majority


class Step(NamedTuple):
    safe_when: str  # in words, for the documentation
    waits_for: Callable[[PartitionImage, BrokerAvailability], str | None]  # None: the step can be taken now
    # The next leader. None: the controllers cannot know whether the step is safe. The present leader reports
    # it, and keeps leading.
    leader: Callable[[PartitionImage], int] | None = None
    epochs_ahead: int = 1
    # Whether a former member that holds everything committed still counts. Otherwise, if the first primary
    # loses its disk before a backup has caught up, it is not known that another replica has all records.
    keeps_eligible: bool = False


def towards(now: str, wanted: str) -> str:
    """The next mode on the way to ``wanted``."""
    return wanted if ISR in (now, wanted) else ISR


def step(partition: PartitionImage, available: BrokerAvailability, wanted: str | None) -> PartitionImage:
    """The partition, as close to the wanted mode as it can be now. The next event may be far off, so all
    steps that need not wait are taken at once.
    """
    if wanted is None or partition.mode == wanted:
        return partition
    mode = towards(partition.mode, wanted)
    chosen = STEPS[partition.mode, mode]
    if chosen.leader is None or chosen.waits_for(partition, available) is not None:
        return partition
    epoch = partition.leader_epoch + chosen.epochs_ahead
    eligible = partition.eligible if chosen.keeps_eligible else ()
    changed = _changed(partition, mode, chosen.leader(partition), partition.in_sync, epoch, eligible)
    return step(changed, available, wanted)


def _changed(
    partition: PartitionImage,
    mode: str,
    leader: int,
    members: tuple[int, ...],
    epoch: int,
    eligible: tuple[int, ...] = (),
) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        mode=mode,
        mode_epoch=epoch,
        leader=leader,
        leader_epoch=epoch,
        in_sync=members,
        eligible=eligible,
        heir=NO_BROKER,
        losses=(),
        voters=(),
        last_leader=partition.leader if leader == NO_BROKER else leader,
    )


# --- what each step waits for -------------------------------------------------------------------------------


def _majority_in_sync(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    there = [member for member in partition.in_sync if _serves(partition, member, available)]
    needed = majority(len(partition.replicas))
    if len(there) >= needed:
        return _no_move(partition)
    return f"a majority in sync: {len(there)} of {len(partition.replicas)} replicas are, {needed} must be"


def _primary_in_sync(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    primary = partition.target[0]
    if primary in partition.in_sync and _serves(partition, primary, available):
        return _no_move(partition)
    return f"broker {primary}, which is to be the primary: it is not in sync"


def _pause(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    if partition.leader == NO_BROKER:
        return f"broker {partition.target[0]}, the primary: it may hold records that no other replica has"
    if partition.leader not in partition.in_sync:
        return f"broker {partition.leader}, the primary: it has to copy back records from its backups first"
    return "the primary, which pauses until enough replicas hold its whole log"


def _seal(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    return "the leader, which ends the log with a seal that a majority must hold"


def _serves(partition: PartitionImage, replica: int, available: BrokerAvailability) -> bool:
    return replica in available.unfenced and replica not in partition.offline


def _no_move(partition: PartitionImage) -> str | None:
    return "the end of a reassignment" if partition.is_moving else None


STEPS: dict[tuple[str, str], Step] = {
    (ISR, PRIMARY_BACKUP): Step(
        "the first replica is in sync",
        _primary_in_sync,
        lambda partition: partition.target[0],
        keeps_eligible=True,
    ),
    (PRIMARY_BACKUP, ISR): Step("the primary has paused, and enough replicas hold its log", _pause),
    (ISR, QUORUM): Step("a majority is in sync", _majority_in_sync, lambda partition: NO_BROKER),
    (QUORUM, ISR): Step("the log is sealed, and a majority holds it", _seal, epochs_ahead=EPOCHS_AHEAD),
}


# --- reported by the leader ---------------------------------------------------------------------------------


def ends_in_seal(partition: PartitionImage) -> bool:
    """Whether its leader has to end the log before the controllers can take over."""
    step = STEPS.get((partition.mode, ISR))
    return step is not None and step.leader is None


def sealed(partition: PartitionImage, epoch: int, leader: int, members: tuple[int, ...]) -> PartitionImage:
    """The leader accepts no more records, and ``members`` hold its whole log: the controllers take over.

    Voters may elect other leaders until they learn of it, and the appointed leader would lack what those
    commit. But an elected leader has the seal, and accepts and commits nothing after it: a replica that holds
    the seal holds everything that will ever be committed. It does not matter whether the wanted mode has
    changed since: a sealed log continues under the controllers, and changes again from there.
    """
    ahead = STEPS[partition.mode, ISR].epochs_ahead
    return _changed(partition, ISR, leader, members, max(epoch, partition.leader_epoch) + ahead)


# --- requested by an operator -------------------------------------------------------------------------------


class PendingChange(NamedTuple):
    """A partition that does not have its topic's wanted mode yet."""

    partition: int
    mode: str  # the present one
    towards: str
    waits_for: str


def pending(topic: TopicImage, available: BrokerAvailability) -> Iterator[PendingChange]:
    """The steps that are left for a change of mode, and what each waits for."""
    wanted = mode_of(topic.configs)
    for index, partition in enumerate(topic.partitions):
        if partition.mode != wanted:
            mode = towards(partition.mode, wanted)
            reason = STEPS[partition.mode, mode].waits_for(partition, available)
            yield PendingChange(index, partition.mode, mode, reason or "the controllers")


def wanted_mode_changed(topic: TopicImage, *, since: TopicImage) -> Iterator[PartitionChanged]:
    """The wanted mode has changed: a leader that has paused for the last one may continue, or pause again.
    With this record its earlier report of the holders of its log is void, however late it arrives.
    """
    if mode_of(topic.configs) == mode_of(since.configs):
        return
    for index, partition in enumerate(topic.partitions):
        if ends_in_seal(partition):
            yield record_of(topic.topic_id, index, partition)


def under_way(topic: TopicImage) -> bool:
    wanted = mode_of(topic.configs)
    return any(partition.mode != wanted for partition in topic.partitions)


def check_start(topic: TopicImage, wanted: str) -> None:
    """Refuse a change of mode that would have to wait for another change, or that has no safe steps."""
    if wanted == mode_of(topic.configs):
        return
    for now in sorted({partition.mode for partition in topic.partitions}):
        _check_way(now, wanted)
    moving = [str(index) for index, partition in enumerate(topic.partitions) if partition.is_moving]
    if moving:
        raise InvalidRequest(
            f"the mode of {topic.name} cannot change during a reassignment (partitions {', '.join(moving)}): "
            "wait for its end or cancel it"
        )


def _check_way(now: str, wanted: str) -> None:
    while now != wanted:
        mode = towards(now, wanted)
        if (now, mode) not in STEPS:
            raise InvalidRequest(f"there is no safe step from mode {now} to mode {mode}")
        now = mode


def check_no_change(topic: TopicImage) -> None:
    """Refuse an operation that is not allowed while the mode of a topic changes."""
    if under_way(topic):
        raise InvalidRequest(
            f"the mode of {topic.name} is changing to {mode_of(topic.configs)}; wait until that is complete"
        )
