"""Changing how the partitions of a live topic are replicated, without losing a record.

The topic's setting is the wish. Each partition goes there on its own, as soon as it is safe, by one metadata
record with a new leader epoch for every step: a crash leaves a partition before a step or behind it. ``isr``
is the hub: from any other mode to any other it is two steps.

============== ============== ================================================================================
from           to             safe when, and why
============== ============== ================================================================================
isr            primary-backup the first replica is in sync: it holds everything, and leads from now on
primary-backup isr            the primary has paused, and as many hold its whole log as make an ok: they are
                              the members (:func:`sealed`)
isr            quorum         a majority is in sync: every member holds all that was committed, and whoever
                              wins a vote was compared with one. A leader that has not heard of the change
                              needs every member to commit anything more, and those who have heard do not
                              fetch in its epoch any more
quorum         isr            the log is sealed, and a majority holds it: they are the members, too
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
    safe_when: str  # in words, for people
    waits_for: Callable[[PartitionImage, BrokerAvailability], str | None]  # None: nothing, it can be taken
    # Who leads then. Where there is none, the controllers cannot know whether it is safe: the present leader
    # says so, and leads on.
    leader: Callable[[PartitionImage], int] | None = None
    epochs_ahead: int = 1


def towards(now: str, wanted: str) -> str:
    """The next mode on the way."""
    return wanted if ISR in (now, wanted) else ISR


def step(partition: PartitionImage, available: BrokerAvailability, wanted: str | None) -> PartitionImage:
    """The partition as close to the wanted mode as it can be now. Nothing else may happen to it for long, so
    all steps that need not wait are taken at once.
    """
    if wanted is None or partition.mode == wanted:
        return partition
    mode = towards(partition.mode, wanted)
    chosen = STEPS[partition.mode, mode]
    if chosen.leader is None or chosen.waits_for(partition, available) is not None:
        return partition
    epoch = partition.leader_epoch + chosen.epochs_ahead
    changed = _changed(partition, mode, chosen.leader(partition), partition.in_sync, epoch)
    return step(changed, available, wanted)


def _changed(
    partition: PartitionImage, mode: str, leader: int, members: tuple[int, ...], epoch: int
) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        mode=mode,
        mode_epoch=epoch,
        leader=leader,
        leader_epoch=epoch,
        in_sync=members,
        eligible=(),
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
        return f"broker {partition.target[0]}, the primary: it may hold what nobody else has"
    if partition.leader not in partition.in_sync:
        return f"broker {partition.leader}, the primary: it has to copy back first what its backups hold"
    return "the primary, which pauses until as many hold its log as make an ok"


def _seal(partition: PartitionImage, available: BrokerAvailability) -> str | None:
    return "its leader, which ends the log with a seal that a majority must have"


def _serves(partition: PartitionImage, replica: int, available: BrokerAvailability) -> bool:
    return replica in available.serving and replica not in partition.offline


def _no_move(partition: PartitionImage) -> str | None:
    return "the end of a reassignment" if partition.is_moving else None


STEPS: dict[tuple[str, str], Step] = {
    (ISR, PRIMARY_BACKUP): Step(
        "the first replica is in sync", _primary_in_sync, lambda partition: partition.target[0]
    ),
    (PRIMARY_BACKUP, ISR): Step("the primary has paused, and enough hold its log", _pause),
    (ISR, QUORUM): Step("a majority is in sync", _majority_in_sync, lambda partition: NO_BROKER),
    (QUORUM, ISR): Step("the log is sealed, and a majority holds it", _seal, epochs_ahead=EPOCHS_AHEAD),
}


# --- by the word of the leader ------------------------------------------------------------------------------


def ends_in_seal(partition: PartitionImage) -> bool:
    """Whether its leader has to end its time before the controllers can take over."""
    step = STEPS.get((partition.mode, ISR))
    return step is not None and step.leader is None


def sealed(partition: PartitionImage, epoch: int, leader: int, members: tuple[int, ...]) -> PartitionImage:
    """The leader takes nothing more, and these hold all of its log: the controllers take over.

    Voters may elect others until they hear of it, and what those committed, the appointed leader would lack.
    But whoever is elected has the seal, takes no records behind it, and commits nothing behind it: whoever
    holds the seal holds everything that ever will have been committed. It does not matter whether the topic's
    wish has changed meanwhile: a sealed log goes on under the controllers, and back from there.
    """
    ahead = STEPS[partition.mode, ISR].epochs_ahead
    return _changed(partition, ISR, leader, members, max(epoch, partition.leader_epoch) + ahead)


# --- by the wish of an operator -----------------------------------------------------------------------------


class PendingChange(NamedTuple):
    """A partition that is not yet replicated as its topic wants."""

    partition: int
    mode: str  # as it is now
    towards: str
    waits_for: str


def waiting(topic: TopicImage, available: BrokerAvailability) -> Iterator[PendingChange]:
    """What is left to do for a change of mode, and why it is not done yet."""
    wanted = mode_of(topic.configs)
    for index, partition in enumerate(topic.partitions):
        if partition.mode != wanted:
            mode = towards(partition.mode, wanted)
            reason = STEPS[partition.mode, mode].waits_for(partition, available)
            yield PendingChange(index, partition.mode, mode, reason or "the controllers")


def wished(topic: TopicImage, *, since: TopicImage) -> Iterator[PartitionChanged]:
    """Another mode is wished for: a leader that has paused for the last wish may go on, or pause anew. What
    it said of the holders of its log is over with this record, however late it arrives.
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
            raise InvalidRequest(f"no safe step leads from mode {now} to mode {mode}")
        now = mode


def check_no_change(topic: TopicImage) -> None:
    """Refuse what must not happen to a topic while its mode changes."""
    if under_way(topic):
        raise InvalidRequest(
            f"{topic.name} is on its way to mode {mode_of(topic.configs)}; wait until all of it is there"
        )
