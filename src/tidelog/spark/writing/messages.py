"""The bodies of a writer's requests: what all writers send.

The versions are served by Kafka 2.4 and newer, also by Kafka 4, so no negotiation is needed. What
transactions and the ledger need in addition is in :mod:`tidelog.spark.writing.transaction_messages` and
:mod:`tidelog.spark.writing.ledger_messages`; it takes Kafka 3.0.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader, string
from tidelog.protocol.batch import Buffer

VERSIONS: dict[int, int] = {
    Api.PRODUCE: 8,
    Api.FIND_COORDINATOR: 2,
    Api.INIT_PRODUCER_ID: 1,
}

OF_GROUP = 0
OF_TRANSACTION = 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION_AND_SIZE = struct.Struct(">ii")
_PRODUCED = struct.Struct(">ihqqq")
_PRODUCER = struct.Struct(">qh")


class Produced(NamedTuple):
    """The result for one batch."""

    error: int
    base_offset: int
    message: str  # empty: the broker sent only the code


class ProducerId(NamedTuple):
    producer_id: int
    epoch: int


def produce_request(
    transactional_id: str | None, acks: int, timeout_ms: int, batches: Mapping[TopicPartition, Buffer]
) -> list[Buffer]:
    """In pieces: the batches themselves are not copied."""
    topics: dict[str, list[tuple[int, Buffer]]] = {}
    for (topic, partition), data in batches.items():
        topics.setdefault(topic, []).append((partition, data))
    head = _INT16.pack(-1) if transactional_id is None else string(transactional_id)
    head += struct.pack(">hii", acks, timeout_ms, len(topics))
    pieces: list[Buffer] = []
    for topic, partitions in topics.items():
        head += string(topic) + _INT32.pack(len(partitions))
        for partition, data in partitions:
            pieces += [head + _PARTITION_AND_SIZE.pack(partition, len(data)), data]
            head = b""
    return pieces


def produced(body: memoryview) -> dict[TopicPartition, Produced]:
    reader = Reader(body)
    found = {}
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            partition, error, base_offset, _time, _start = reader.take(_PRODUCED)
            details = []
            for _ in range(reader.int32()):
                reader.int32()
                details.append(reader.string())
            message = reader.string() or next(filter(None, details), "")
            found[topic, partition] = Produced(error, base_offset, message)
    return found


def find_coordinator_request(key: str, kind: int) -> bytes:
    return string(key) + bytes([kind])


def coordinator(body: memoryview) -> tuple[int, tuple[str, int]]:
    reader = Reader(body)
    reader.int32()  # throttle time
    error = reader.int16()
    reader.string()  # its message
    reader.int32()  # broker id
    return error, (reader.string(), reader.int32())


def init_producer_id_request(transactional_id: str | None, timeout_ms: int) -> bytes:
    name = _INT16.pack(-1) if transactional_id is None else string(transactional_id)
    return name + _INT32.pack(timeout_ms)


def init_producer_id(body: memoryview) -> tuple[int, ProducerId]:
    reader = Reader(body)
    reader.int32()  # throttle time
    error = reader.int16()
    return error, ProducerId(*reader.take(_PRODUCER))
