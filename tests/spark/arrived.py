"""What confluent-kafka, the reference, sees in a topic."""

from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from interop.consumed import headers_of, offset_of, partition_of


class Message(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


def consume(bootstrap: str, topic: str, *, committed: bool = True) -> list[Message]:
    """All records from the beginning to the end as it is now, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        return _to_the_end(consumer, topic)
    finally:
        consumer.close()


def _to_the_end(consumer: Consumer, topic: str) -> list[Message]:
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(1000, 0.1):
            if message.error() is not None:
                ended.add(partition_of(message))
                continue
            found.append(
                Message(
                    partition_of(message),
                    offset_of(message),
                    message.key(),
                    message.value(),
                    headers_of(message),
                    message.timestamp()[1],
                )
            )
    return sorted(found, key=lambda one: (one.partition, one.offset))


Consume = Callable[..., list[Message]]
