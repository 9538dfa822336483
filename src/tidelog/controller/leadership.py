"""Leadership that moves on purpose: preferred leaders, brokers that are drained, unclean elections by hand.

What happens by itself when brokers come and go is in :mod:`tidelog.controller.elections`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tidelog.controller.elections import Rank, Rules, RulesOf, next_state, record_of
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

DRAIN_SETTING = "broker.drain"
MOVED_AT_ONCE_MAX = 200  # partitions in one step of the automatic balance: clients have to follow


class Misplaced(NamedTuple):
    topic: TopicImage
    number: int
    partition: PartitionImage


def is_draining(image: ClusterImage, broker_id: int) -> bool:
    """Whether the operator wants this broker to lead nothing."""
    return image.broker_configs.get(str(broker_id), {}).get(DRAIN_SETTING) == "true"


def serves(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced


def hand_over(partition: PartitionImage, leader: int) -> PartitionImage:
    """Another member leads from the next epoch on; nobody leaves the in-sync set."""
    return msgspec.structs.replace(
        partition, leader=leader, leader_epoch=partition.leader_epoch + 1, last_leader=leader
    )


def move_away(image: ClusterImage, broker_id: int, rank: Rank) -> Iterator[PartitionChanged]:
    """Everything a broker leads and another member can lead."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader != broker_id:
                continue
            others = [
                replica
                for replica in partition.target
                if replica != broker_id and replica in partition.in_sync and serves(image, replica)
            ]
            if others:
                yield record_of(topic.topic_id, index, hand_over(partition, min(others, key=rank)))


def elect_preferred(image: ClusterImage, topic: TopicImage, index: int) -> list[MetadataRecord]:
    """Make the first replica the leader, if it is able to."""
    partition = topic.partitions[index]
    preferred = partition.target[0]
    if partition.leader == preferred:
        raise TidelogError("the preferred replica leads already", ErrorCode.ELECTION_NOT_NEEDED)
    if preferred not in partition.in_sync or not serves(image, preferred):
        raise TidelogError(
            f"broker {preferred}, the first replica, is not in sync", ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
    return [record_of(topic.topic_id, index, hand_over(partition, preferred))]


def elect_unclean(image: ClusterImage, topic: TopicImage, index: int, rules: Rules) -> list[MetadataRecord]:
    """Make any replica that lives the leader of a partition without one, whatever it lacks."""
    partition = topic.partitions[index]
    if partition.leader != NO_BROKER:
        raise TidelogError("the partition has a leader", ErrorCode.ELECTION_NOT_NEEDED)
    new = next_state(partition, lambda replica: serves(image, replica), rules._replace(unclean_allowed=True))
    if new.leader == NO_BROKER:
        raise TidelogError("no replica is alive", ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return [record_of(topic.topic_id, index, new)]


def misplaced(image: ClusterImage) -> Iterator[Misplaced]:
    """Partitions that their preferred replica could lead, but does not."""
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            preferred = partition.target[0]
            if partition.leader in (preferred, NO_BROKER) or preferred not in partition.in_sync:
                continue
            if serves(image, preferred) and not is_draining(image, preferred):
                yield Misplaced(topic, index, partition)


def balance(image: ClusterImage, rank: Rank) -> list[MetadataRecord]:
    """Some of the misplaced partitions go home; who has only just come back is left in peace."""
    records: list[MetadataRecord] = []
    for topic, index, partition in misplaced(image):
        preferred = partition.target[0]
        if rank(preferred) == 0 and len(records) < MOVED_AT_ONCE_MAX:
            records.append(record_of(topic.topic_id, index, hand_over(partition, preferred)))
    return records


def drain(image: ClusterImage, rank: Rank) -> list[MetadataRecord]:
    """What brokers that are drained still lead."""
    records: list[MetadataRecord] = []
    for broker_id in image.brokers:
        if is_draining(image, broker_id):
            records += move_away(image, broker_id, rank)
    return records


def require_partition(image: ClusterImage, name: str, index: int) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise TidelogError(f"there is no partition {name}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def elect(
    image: ClusterImage, name: str, index: int, rules_of: RulesOf, *, unclean: bool
) -> list[MetadataRecord]:
    """By the wish of an operator."""
    topic = require_partition(image, name, index)
    if unclean:
        return elect_unclean(image, topic, index, rules_of(topic))
    return elect_preferred(image, topic, index)
