"""The bodies of a writer's requests, in versions that every Kafka since 2.4 and Kafka 4 serve.

All but DescribeTransactions in the encoding before flexible versions, so no negotiation is needed.
Transactions use the first protocol version: the epoch stays the same from one end to the next, so an end that
is requested twice, perhaps by another process, is recognisable (:mod:`tidelog.spark.writing.transactions`).
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader, string
from tidelog.protocol.batch import Buffer
from tidelog.protocol.wire import read_string, read_uvarint, write_string, write_uvarint

VERSIONS: dict[int, int] = {
    Api.PRODUCE: 8,
    Api.FIND_COORDINATOR: 2,
    Api.INIT_PRODUCER_ID: 1,
    Api.ADD_PARTITIONS_TO_TXN: 2,
    Api.END_TXN: 2,
    Api.DESCRIBE_TRANSACTIONS: 0,
    Api.OFFSET_COMMIT: 7,
    Api.OFFSET_FETCH: 5,
}

OF_GROUP = 0
OF_TRANSACTION = 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PARTITION_AND_SIZE = struct.Struct(">ii")
_PRODUCED = struct.Struct(">ihqqq")
_PRODUCER = struct.Struct(">qh")
_OFFSET = struct.Struct(">iqi")


class Produced(NamedTuple):
    """The result for one batch."""

    error: int
    base_offset: int
    message: str  # empty: the broker sent only the code


class ProducerId(NamedTuple):
    producer_id: int
    epoch: int


class TransactionState(NamedTuple):
    error: int
    state: str
    producer: ProducerId


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str


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


def add_partitions_request(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition]
) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    body = string(transactional_id) + _PRODUCER.pack(*producer) + _INT32.pack(len(topics))
    for topic, indexes in topics.items():
        body += string(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return body


def add_partitions(body: memoryview) -> dict[TopicPartition, int]:
    """The error of each partition."""
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            found[topic, reader.int32()] = reader.int16()
    return found


def end_request(transactional_id: str, producer: ProducerId, commits: bool) -> bytes:
    return string(transactional_id) + _PRODUCER.pack(*producer) + bytes([commits])


def only_error(body: memoryview) -> int:
    """Of a response that holds nothing else."""
    reader = Reader(body)
    reader.int32()  # throttle time
    return reader.int16()


def describe_transactions_request(transactional_ids: Sequence[str]) -> bytes:
    names = b"".join(write_string(name, True) for name in transactional_ids)
    return write_uvarint(len(transactional_ids) + 1) + names + b"\x00"


def described_transactions(body: memoryview) -> dict[str, TransactionState]:
    """State, producer and epoch of each; the partitions in them are skipped."""
    count, at = read_uvarint(body, 4)  # behind the throttle time
    found = {}
    for _ in range(count - 1):
        (error,) = _INT16.unpack_from(body, at)
        name, at = read_string(body, at + 2, True)
        state, at = read_string(body, at, True)
        producer = ProducerId(*_PRODUCER.unpack_from(body, at + 12))  # behind timeout and start time
        at = _behind_topics(body, at + 22)
        found[name or ""] = TransactionState(error, state or "", producer)
    return found


def _behind_topics(body: memoryview, at: int) -> int:
    topics, at = read_uvarint(body, at)
    for _ in range(topics - 1):
        _, at = read_string(body, at, True)
        partitions, at = read_uvarint(body, at)
        at += 4 * (partitions - 1) + 1  # and no tags
    return at + 1


def offset_commit_request(group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> bytes:
    """From outside the group, which has no members."""
    body = string(group) + _INT32.pack(-1) + string("") + _INT16.pack(-1)
    body += _INT32.pack(1) + string(topic) + _INT32.pack(len(offsets))
    for partition, committed in offsets.items():
        body += _OFFSET.pack(partition, committed.offset, -1) + string(committed.metadata)
    return body


def offset_commit(body: memoryview) -> int:
    """The first error of any partition."""
    reader = Reader(body)
    reader.int32()  # throttle time
    errors = []
    for _ in range(reader.int32()):
        reader.string()
        for _ in range(reader.int32()):
            reader.int32()
            errors.append(reader.int16())
    return next(filter(None, errors), 0)


def offset_fetch_request(group: str) -> bytes:
    """Everything the group has."""
    return string(group) + _INT32.pack(-1)


def offset_fetch(body: memoryview) -> tuple[int, dict[TopicPartition, CommittedOffset]]:
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            partition, offset, _epoch = reader.take(_OFFSET)
            found[topic, partition] = CommittedOffset(offset, reader.string())
            reader.int16()
    return reader.int16(), found
