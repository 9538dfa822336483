"""What a consumed message holds: confluent-kafka's types allow for messages that have none of it."""

from typing import cast

from confluent_kafka import Message

Headers = list[tuple[str, bytes | None]]


def topic_of(message: Message) -> str:
    topic = message.topic()
    assert topic is not None
    return topic


def partition_of(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def key_of(message: Message) -> bytes:
    key = message.key()
    assert key is not None
    return key


def value_of(message: Message) -> bytes:
    value = message.value()
    assert value is not None
    return value


def headers_of(message: Message) -> Headers:
    return cast("Headers", message.headers() or [])
