"""The bodies of requests about transactions.

The versions are served by Kafka 3.0 and newer. Ending a transaction uses the first version of the transaction
protocol: the epoch stays the same from one end to the next, so an end that is requested twice, perhaps by
another process, is recognisable (:mod:`tidelog.spark.writing.transactions`).
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader, string
from tidelog.protocol.wire import write_string, write_uvarint
from tidelog.spark.writing.messages import ProducerId

VERSIONS: dict[int, int] = {
    Api.INIT_PRODUCER_ID: 3,
    Api.ADD_PARTITIONS_TO_TXN: 2,
    Api.END_TXN: 2,
    Api.DESCRIBE_TRANSACTIONS: 0,
    Api.LIST_TRANSACTIONS: 0,
    Api.DESCRIBE_CONFIGS: 1,
}

ANY = ProducerId(-1, -1)

_INT32 = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_TIMES = struct.Struct(">iq")
_BROKER = 4  # the kind of resource


class TransactionState(NamedTuple):
    error: int
    state: str
    timeout_ms: int
    producer: ProducerId


class ListedTransaction(NamedTuple):
    name: str
    state: str


def init_producer_id_request(name: str, timeout_ms: int, expected: ProducerId = ANY) -> bytes:
    """``expected``: refused unless this is the name's producer."""
    return write_string(name, True) + _INT32.pack(timeout_ms) + _PRODUCER.pack(*expected) + b"\x00"


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
    """By name; the partitions of each are skipped."""
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.compact_count()):
        error, name, state = reader.int16(), reader.compact_string(), reader.compact_string()
        timeout_ms, _started_ms = reader.take(_TIMES)
        producer = ProducerId(*reader.take(_PRODUCER))
        for _ in range(reader.compact_count()):
            reader.compact_string()
            reader.span(4 * reader.compact_count())
            reader.skip_tags()
        reader.skip_tags()
        found[name] = TransactionState(error, state, timeout_ms, producer)
    return found


def list_transactions_request(states: Sequence[str]) -> bytes:
    """Those in one of these states; of none: all."""
    filters = b"".join(write_string(state, True) for state in states)
    return write_uvarint(len(states) + 1) + filters + b"\x01\x00"


def listed_transactions(body: memoryview) -> tuple[int, list[ListedTransaction]]:
    reader = Reader(body)
    reader.int32()  # throttle time
    error = reader.int16()
    for _ in range(reader.compact_count()):
        reader.compact_string()  # a state that the broker does not know
    found = []
    for _ in range(reader.compact_count()):
        name = reader.compact_string()
        reader.int64()  # producer id
        found.append(ListedTransaction(name, reader.compact_string()))
        reader.skip_tags()
    return error, found


def describe_broker_request(broker_id: int, setting: str) -> bytes:
    one = _INT32.pack(1)
    return one + bytes([_BROKER]) + string(str(broker_id)) + one + string(setting) + b"\x00"


def described_setting(body: memoryview) -> str | None:
    """The value of the one setting that was asked for; None: the broker does not tell."""
    reader = Reader(body)
    reader.int32()  # throttle time
    if reader.int32() != 1 or reader.int16():
        return None
    reader.string()  # the error's message
    reader.int8()  # kind and name of the resource
    reader.string()
    if reader.int32() < 1:
        return None
    reader.string()
    return reader.string() or None
