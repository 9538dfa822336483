"""Reads partitions from where a load began to their ends, with a consumer of its own.

Owns when the end is reached: each partition has ended, and not before its last acknowledged record, unless
that does not turn up within a time: then it is lost, as an account shows.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

RETRY_S = 0.1


class LoadFailed(Exception):
    """The load cannot say what it was asked."""


def end_offsets(
    bootstrap: str,
    topic: str,
    partitions: int,
    timeout_s: float,
    security: Mapping[str, Any] | None = None,
) -> list[int]:
    """Where each partition ends now. A broker may not know a new topic yet: it is asked again."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2}
    consumer = Consumer(settings | dict(security or {}))
    deadline = time.monotonic() + timeout_s
    try:
        return [
            _end_offset(consumer, TopicPartition(topic, number), deadline) for number in range(partitions)
        ]
    finally:
        consumer.close()


def _end_offset(consumer: Consumer, place: TopicPartition, deadline: float) -> int:
    while True:
        try:
            left_s = max(deadline - time.monotonic(), 0.1)
            return int(consumer.get_watermark_offsets(place, left_s)[1])
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise LoadFailed(f"the ends of {place.topic} are not known: {error.args[0].str()}") from error
            time.sleep(RETRY_S)


def read_back(
    bootstrap: str,
    topic: str,
    starts: Mapping[int, int],
    acknowledged_ends: Mapping[int, int],
    received: Callable[[Message], None],
    *,
    timeout_s: float,
    missing_s: float | None = None,
    security: Mapping[str, Any] | None = None,
) -> int:
    """Read from ``starts`` to the ends; the number of records.

    ``acknowledged_ends`` are exclusive. ``timeout_s`` without anything new ends the reading, ``missing_s``
    does where all partitions have ended, but one too early. ``security``: librdkafka's settings for TLS and
    SASL.
    """
    consumer = _consumer(bootstrap, topic, starts, security or {})
    ends: dict[int, int] = {}  # of the partitions that were read to their end
    count = 0
    news = time.monotonic()
    patience_s = timeout_s if missing_s is None else min(missing_s, timeout_s)

    def is_all() -> bool:
        return all(ends.get(number, -1) >= acknowledged_ends.get(number, 0) for number in starts)

    try:
        while not is_all():
            quiet_s = time.monotonic() - news
            if quiet_s > (patience_s if starts.keys() <= ends.keys() else timeout_s):
                break
            messages = consumer.consume(1000, 0.1)
            for message in messages:
                count += _take(message, received, ends)
            if any(message.error() is None for message in messages):
                news = time.monotonic()
    finally:
        consumer.close()
    if missing := sorted(starts.keys() - ends.keys()):
        raise LoadFailed(f"partition {missing[0]} of {topic} was not read to its end within {timeout_s:g} s")
    return count


def _take(message: Message, received: Callable[[Message], None], ends: dict[int, int]) -> bool:
    error = message.error()
    if error is None:
        received(message)
        return True
    if error.code() == KafkaError._PARTITION_EOF:
        ends[message.partition() or 0] = message.offset() or 0
    return False


def _consumer(bootstrap: str, topic: str, starts: Mapping[int, int], security: Mapping[str, Any]) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # what was deleted is lost, and the rest is read
            "fetch.wait.max.ms": 50,  # the end of a partition is known only from a fetch without records
            "socket.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
            **security,
        }
    )
    consumer.assign([TopicPartition(topic, number, start) for number, start in starts.items()])
    return consumer
