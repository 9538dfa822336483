"""Small clusters to decide upon."""

from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerRegistered, ClusterFounded, MetadataRecord, TopicCreated


def topic_id(number: int) -> UUID:
    return UUID(int=0x7E5E_0000 + number)


def created(name: str, *assignments: list[int], number: int = 1, **configs: str) -> TopicCreated:
    return TopicCreated(name, topic_id(number), [list(replicas) for replicas in assignments], configs)


def cluster(*brokers: int, records: list[MetadataRecord] | None = None) -> ClusterImage:
    """A cluster of these brokers, registered in this order, after ``records``."""
    registered = [BrokerRegistered(broker, UUID(int=broker), f"host-{broker}", 9092) for broker in brokers]
    return ClusterImage().apply([ClusterFounded("c"), *registered, *(records or [])])
