"""Leadership that moves on purpose: to preferred replicas, away from brokers that are drained, and to whoever
is left when an operator prefers serving to waiting.

What happens by itself when brokers come and go is in :mod:`tidelog.controller.elections`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.standing import Rank, Standing, all_alike
from tidelog.controller.successions import force, hand_over, is_appointed, is_led
from tidelog.controller.successions.steps import Rules, RulesOf, record_of, serves
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

MOVED_AT_ONCE_MAX = 200  # partitions in one step of the automatic balance: clients have to follow


class Place(NamedTuple):
    """A partition and where to find it."""

    topic: TopicImage
    number: int
    partition: PartitionImage

    def led_by(self, leader: int) -> PartitionChanged:
        """Another member leads from the next epoch on; nobody leaves the in-sync set."""
        return record_of(self.topic.topic_id, self.number, hand_over(self.partition, leader))


def find(image: ClusterImage, name: str, index: int) -> Place:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise TidelogError(f"there is no partition {name}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return Place(topic, index, topic.partitions[index])


def every_place(image: ClusterImage) -> Iterator[Place]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield Place(topic, index, partition)


# --- by the wish of an operator -----------------------------------------------------------------------------


def elect(
    image: ClusterImage,
    name: str,
    index: int,
    rules_of: RulesOf,
    rank: Rank = all_alike,
    *,
    unclean: bool,
) -> list[MetadataRecord]:
    place = find(image, name, index)
    standing = Standing.of(image, rank)
    if unclean:
        return [_elect_unclean(place, standing, rules_of(place.topic))]
    return [_elect_preferred(place, standing)]


def _elect_preferred(place: Place, standing: Standing) -> PartitionChanged:
    partition = place.partition
    preferred = partition.target[0]
    if partition.leader == preferred:
        raise TidelogError("the preferred replica leads already", ErrorCode.ELECTION_NOT_NEEDED)
    problem = None
    if not serves(partition, preferred, standing):
        problem = "does not serve at present"
    elif preferred not in partition.in_sync:
        problem = "is not in sync"
    elif preferred not in standing.willing:
        problem = "is drained or about to stop"
    elif not is_appointed(partition):
        problem = f"leads by the rules of {partition.mode} or not at all"
    if problem:
        raise TidelogError(
            f"broker {preferred}, the first replica, {problem}", ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
    return place.led_by(preferred)


def _elect_unclean(place: Place, standing: Standing, rules: Rules) -> PartitionChanged:
    """Any replica that serves leads a partition without a leader, whatever it lacks."""
    if is_led(place.partition, standing):
        raise TidelogError("the partition has a leader, or can elect one", ErrorCode.ELECTION_NOT_NEEDED)
    new = force(place.partition, standing, rules)
    if new.leader == NO_BROKER:
        raise TidelogError("none of the replicas serves at present", ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return record_of(place.topic.topic_id, place.number, new)


# --- by itself ----------------------------------------------------------------------------------------------


def misplaced(image: ClusterImage, standing: Standing) -> Iterator[Place]:
    """Partitions that their preferred replica could lead, but does not."""
    for place in every_place(image):
        partition = place.partition
        preferred = partition.target[0]
        if partition.leader in (preferred, NO_BROKER) or preferred not in partition.in_sync:
            continue
        if not is_appointed(partition):
            continue
        if preferred in standing.willing and preferred not in partition.offline:
            yield place


def balance(image: ClusterImage, rank: Rank = all_alike) -> list[MetadataRecord]:
    """Some of the misplaced partitions go home; who has only just come back is left in peace."""
    records: list[MetadataRecord] = []
    for place in misplaced(image, Standing.of(image, rank)):
        preferred = place.partition.target[0]
        if rank(preferred) == 0:
            records.append(place.led_by(preferred))
        if len(records) == MOVED_AT_ONCE_MAX:
            break
    return records


def strays(image: ClusterImage, standing: Standing) -> Iterator[Place]:
    """Partitions led by a broker that should not, though a member that should is there."""
    unwilling = standing.serving - standing.willing
    if not unwilling:
        return
    for place in every_place(image):
        if not is_appointed(place.partition):
            continue
        if place.partition.leader in unwilling and any(
            member in standing.willing and member not in place.partition.offline
            for member in place.partition.in_sync
        ):
            yield place
