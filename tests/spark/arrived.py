"""What confluent-kafka, the reference, sees in a topic."""

import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from interop.consumed import headers_of, offset_of, partition_of


class Message(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


HELD_BACK = b"held-back?"  # the key of records of held_back()


def consume(bootstrap: str, topic: str, *, committed: bool = True, marks: bool = False) -> list[Message]:
    """All records from the beginning to the end as it is now, in the order of each partition. ``marks``: also
    those of :func:`held_back`.
    """
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
        return [one for one in _to_the_end(consumer, topic) if marks or one.key != HELD_BACK]
    finally:
        consumer.close()


def held_back(bootstrap: str, topic: str, *, within_s: float = 60.0) -> list[int]:
    """Partitions whose ``read_committed`` readers do not get a record that is written now, because a
    transaction before it is open. Ended ones are waited for, for far less than a transaction's timeout.
    """
    mark = uuid.uuid4().hex.encode()
    producer = Producer({"bootstrap.servers": bootstrap})
    partitions = set(producer.list_topics(topic, 30).topics[topic].partitions)
    for partition in partitions:
        producer.produce(topic, partition=partition, value=mark, key=HELD_BACK)
    assert producer.flush(60) == 0
    deadline = time.monotonic() + within_s
    while True:
        seen = {one.partition for one in consume(bootstrap, topic, marks=True) if one.value == mark}
        if seen == partitions or time.monotonic() > deadline:
            return sorted(partitions - seen)


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
