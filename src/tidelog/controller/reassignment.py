"""Moving replicas to other brokers: begun here, finished by the elections when the new ones have caught up.

While it is under way a partition has the old replicas and the new ones; ``adding`` and ``removing`` say which
is which. The old ones go only when every new one is in sync, so at no time are there fewer copies than before.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.elections import Rules, finish_reassignment, next_state, record_of
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.leadership import serves
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, TidelogError


class Ongoing(NamedTuple):
    """A reassignment that is not finished."""

    topic: TopicImage
    number: int
    partition: PartitionImage


def _refuse(message: str) -> TidelogError:
    return TidelogError(message, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def check_target(image: ClusterImage, target: Sequence[int]) -> None:
    if not target:
        raise _refuse("a partition needs at least one replica")
    if len(set(target)) != len(target):
        raise _refuse(f"a broker is named twice: {list(target)}")
    strangers = [broker for broker in target if broker not in image.brokers]
    if strangers:
        raise _refuse(f"brokers that do not exist: {strangers}")


def begin(image: ClusterImage, topic_id: UUID, index: int, target: Sequence[int]) -> list[MetadataRecord]:
    """Replace what is under way for this partition, if anything, by a way to ``target``."""
    check_target(image, target)
    partition = _partition(image, topic_id, index)
    before = _original(partition)
    adding = tuple(replica for replica in target if replica not in before)
    removing = tuple(replica for replica in before if replica not in target)
    # New ones of an earlier reassignment that nobody wants any more are out at once: they count for nothing.
    wanted = (*target, *removing)
    in_sync = tuple(member for member in partition.in_sync if member in wanted)
    if partition.leader not in (*wanted, -1) or not in_sync:
        raise TidelogError(
            "the leader is one of the replicas that an earlier reassignment brought; let it finish first",
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    new = msgspec.structs.replace(
        partition,
        replicas=wanted,
        in_sync=in_sync,
        eligible=tuple(replica for replica in partition.eligible if replica in wanted),
        adding=adding,
        removing=removing,
    )
    if not adding and not removing:
        return [record_of(topic_id, index, new)] if new != partition else []  # Another order only.
    return [record_of(topic_id, index, finish_reassignment(new))]


def cancel(image: ClusterImage, topic_id: UUID, index: int, rules: Rules) -> list[MetadataRecord]:
    """Back to the replicas from before."""
    partition = _partition(image, topic_id, index)
    if not (partition.adding or partition.removing):
        raise TidelogError("no reassignment is under way", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    before = _original(partition)
    in_sync = tuple(member for member in partition.in_sync if member in before)
    if not in_sync:
        raise _refuse("none of the replicas from before is in sync any more")
    reverted = msgspec.structs.replace(
        partition,
        replicas=before,
        in_sync=in_sync,
        eligible=tuple(replica for replica in partition.eligible if replica in before),
        adding=(),
        removing=(),
    )
    new = next_state(reverted, lambda replica: serves(image, replica), rules)
    return [record_of(topic_id, index, new)]


def ongoing(image: ClusterImage) -> Iterator[Ongoing]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.adding or partition.removing:
                yield Ongoing(topic, index, partition)


def _original(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas before what is under way began, in their order as far as it is still known."""
    kept = [replica for replica in partition.replicas if replica not in partition.adding]
    return tuple(kept)


def _partition(image: ClusterImage, topic_id: UUID, index: int) -> PartitionImage:
    topic = image.topic_by_id(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise TidelogError("there is no such partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.partitions[index]
