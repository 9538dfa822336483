"""Planned moves of leadership: to preferred replicas, away from drained brokers, and to any available replica
when an operator prefers availability.

:mod:`tidelog.controller.leader_assignment` has the automatic changes when brokers start and fail.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.successions import can_hand_over, force, hand_over, is_led, may_be_led
from tidelog.controller.successions.steps import Rules, RulesOf, record_of, serves
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

MOVED_AT_ONCE_MAX = 200  # maximum number of partitions in one automatic step: clients have to follow


class PartitionPlace(NamedTuple):
    """A partition with its topic and number."""

    topic: TopicImage
    number: int
    partition: PartitionImage

    def led_by(self, leader: int) -> PartitionChanged:
        """Another member leads from the next epoch on. The in-sync set stays the same."""
        return record_of(self.topic.topic_id, self.number, hand_over(self.partition, leader))


def find(image: ClusterImage, name: str, index: int) -> PartitionPlace:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise TidelogError(f"there is no partition {name}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return PartitionPlace(topic, index, topic.partitions[index])


def every_place(image: ClusterImage) -> Iterator[PartitionPlace]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield PartitionPlace(topic, index, partition)


# --- on request of an operator ------------------------------------------------------------------------------


def elect(
    image: ClusterImage,
    name: str,
    index: int,
    rules_of: RulesOf,
    rank: Rank = same_rank,
    *,
    unclean: bool,
) -> list[MetadataRecord]:
    place = find(image, name, index)
    available = BrokerAvailability.of(image, rank)
    if unclean:
        return [_elect_unclean(place, available, rules_of(place.topic))]
    return [_elect_preferred(place, available)]


def _elect_preferred(place: PartitionPlace, available: BrokerAvailability) -> PartitionChanged:
    partition = place.partition
    preferred = partition.target[0]
    if partition.leader == preferred:
        raise TidelogError("the preferred replica is already the leader", ErrorCode.ELECTION_NOT_NEEDED)
    problem = None
    if not serves(partition, preferred, available):
        problem = "is not available"
    elif preferred not in partition.in_sync:
        problem = "is not in sync"
    elif preferred not in available.willing:
        problem = "is drained or shutting down"
    elif not can_hand_over(partition):
        problem = f"cannot be appointed in mode {partition.mode}"
    if problem:
        raise TidelogError(
            f"broker {preferred}, the first replica, {problem}", ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
    return place.led_by(preferred)


def _elect_unclean(place: PartitionPlace, available: BrokerAvailability, rules: Rules) -> PartitionChanged:
    """Any available replica leads a partition without a leader, whatever records it lacks."""
    if is_led(place.partition, available):
        raise TidelogError("the partition has a leader, or can elect one", ErrorCode.ELECTION_NOT_NEEDED)
    new = force(place.partition, available, rules)
    if new.leader == NO_BROKER and may_be_led(new, available):
        in_session = min(available.in_session.intersection(new.replicas))
        raise TidelogError(
            f"broker {in_session} may be alive and lead until its session is over; try again",
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        )
    if new.leader == NO_BROKER:
        raise TidelogError("none of the replicas is available", ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return record_of(place.topic.topic_id, place.number, new)


def missed(image: ClusterImage) -> frozenset[int]:
    """The replicas of partitions that wait until the session of a fenced broker is over."""
    available = BrokerAvailability.of(image)
    return frozenset(
        replica
        for place in every_place(image)
        if may_be_led(place.partition, available)
        for replica in place.partition.replicas
    )


# --- automatic ----------------------------------------------------------------------------------------------


def misplaced(image: ClusterImage, available: BrokerAvailability) -> Iterator[PartitionPlace]:
    """Partitions that their preferred replica could lead, but does not."""
    for place in every_place(image):
        partition = place.partition
        preferred = partition.target[0]
        if partition.leader in (preferred, NO_BROKER) or preferred not in partition.in_sync:
            continue
        if not can_hand_over(partition):
            continue
        if preferred in available.willing and preferred not in partition.offline:
            yield place


def balance(image: ClusterImage, rank: Rank = same_rank) -> list[MetadataRecord]:
    """Move some of the misplaced partitions back to their preferred replicas, except to brokers that have
    just restarted.
    """
    records: list[MetadataRecord] = []
    for place in misplaced(image, BrokerAvailability.of(image, rank)):
        preferred = place.partition.target[0]
        if rank(preferred) == 0:
            records.append(place.led_by(preferred))
        if len(records) == MOVED_AT_ONCE_MAX:
            break
    return records


def strays(image: ClusterImage, available: BrokerAvailability) -> Iterator[PartitionPlace]:
    """Partitions whose leader is drained or shutting down, though another member could lead."""
    unwilling = available.unfenced - available.willing
    if not unwilling:
        return
    for place in every_place(image):
        if not can_hand_over(place.partition):
            continue
        if place.partition.leader in unwilling and any(
            member in available.willing and member not in place.partition.offline
            for member in place.partition.in_sync
        ):
            yield place
