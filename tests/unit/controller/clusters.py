"""Small clusters to decide upon, and decisions about their brokers."""

from uuid import UUID

from tidelog.controller.availability import Rank, same_rank
from tidelog.controller.brokers import fenced, leaving, unfenced, with_leaders
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered, ClusterFounded, MetadataRecord, TopicCreated
from tidelog.controller.successions.steps import RulesOf


def topic_id(number: int) -> UUID:
    return UUID(int=0x7E5E_0000 + number)


def created(name: str, *assignments: list[int], number: int = 1, **configs: str) -> TopicCreated:
    return TopicCreated(name, topic_id(number), [list(replicas) for replicas in assignments], configs)


def cluster(*brokers: int, records: list[MetadataRecord] | None = None) -> ClusterImage:
    """A cluster of these brokers, registered in this order, after ``records``."""
    registered = [BrokerRegistered(broker, UUID(int=broker), f"host-{broker}", 9092) for broker in brokers]
    return ClusterImage().apply([ClusterFounded("c"), *registered, *(records or [])])


def fence(
    image: ClusterImage, broker_id: int, rules_of: RulesOf, rank: Rank = same_rank
) -> list[MetadataRecord]:
    """A broker is fenced, and other brokers lead its partitions."""
    return with_leaders(image, [fenced(broker_id)], rules_of, rank)


def unfence(image: ClusterImage, broker_id: int, rules_of: RulesOf) -> list[MetadataRecord]:
    """A broker is back, and partitions that waited for it are led again."""
    return with_leaders(image, [unfenced(broker_id)], rules_of, same_rank)


def leave(image: ClusterImage, broker_id: int, rules_of: RulesOf) -> list[MetadataRecord]:
    """A broker shuts down, and other brokers lead its partitions where they can."""
    return with_leaders(image, [leaving(broker_id)], rules_of, same_rank)
