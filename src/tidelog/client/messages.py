"""The bodies of a reader's requests, in the newest versions without flexible encoding.

Every Kafka since 2.3, including Kafka 4, serves those versions. :mod:`tidelog.client.messages_by_id` has the
newer ones with topic ids.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.client.reader import Reader, string

METADATA_VERSION = 7
LIST_OFFSETS_VERSION = 5
FETCH_VERSION = 11

EARLIEST = -2
LATEST = -1

_INT32 = struct.Struct(">i")
_FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqqi")
_FETCHED = struct.Struct(">ihqqq")
_LIST_PARTITION = struct.Struct(">iiq")
_LISTED = struct.Struct(">ihqqi")

TopicPartition = tuple[str, int]


class PartitionMetadata(NamedTuple):
    error: int
    leader: int  # -1: none
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    error: int
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    topic_id: str = ""  # as Kafka writes it; empty: the broker reports none


class Metadata(NamedTuple):
    brokers: dict[int, tuple[str, int]]
    topics: dict[str, TopicMetadata]


class ListedOffset(NamedTuple):
    error: int
    offset: int  # -1: no record is that new


class FetchedPartition(NamedTuple):
    """The response for the requested partition."""

    error: int
    high_watermark: int
    log_start_offset: int
    aborted: list[tuple[int, int]]  # (producer id, first offset) of aborted transactions
    nearer_replica: int  # a broker in the reader's rack to use instead; -1: none
    records: memoryview  # whole batches, and perhaps the beginning of another


def metadata_request(topics: Iterable[str] | None) -> bytes:
    """None: all topics. Topics are not auto-created."""
    if topics is None:
        return _INT32.pack(-1) + b"\x00"
    names = [string(name) for name in topics]
    return _INT32.pack(len(names)) + b"".join(names) + b"\x00"


def metadata(body: memoryview) -> Metadata:
    reader = Reader(body)
    reader.int32()  # throttle time
    brokers = {}
    for _ in range(reader.int32()):
        broker_id, host, port = reader.int32(), reader.string(), reader.int32()
        reader.string()  # rack
        brokers[broker_id] = (host, port)
    reader.string()  # cluster id
    reader.int32()  # controller
    topics = {}
    for _ in range(reader.int32()):
        error, name, is_internal = reader.int16(), reader.string(), reader.flag()
        partitions = dict(_partition_metadata(reader) for _ in range(reader.int32()))
        topics[name] = TopicMetadata(error, is_internal, partitions)
    return Metadata(brokers, topics)


def _partition_metadata(reader: Reader) -> tuple[int, PartitionMetadata]:
    error, index, leader, epoch = reader.int16(), reader.int32(), reader.int32(), reader.int32()
    replicas, in_sync, _offline = reader.numbers(), reader.numbers(), reader.numbers()
    return index, PartitionMetadata(error, leader, epoch, replicas, in_sync)


def list_offsets_request(wanted: Mapping[TopicPartition, int], read_committed: bool) -> bytes:
    """``wanted``: for each partition a time in milliseconds, :data:`EARLIEST` or :data:`LATEST`."""
    topics: dict[str, list[bytes]] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, []).append(_LIST_PARTITION.pack(partition, -1, timestamp))
    body = struct.pack(">ibi", -1, read_committed, len(topics))
    for topic, partitions in topics.items():
        body += string(topic) + _INT32.pack(len(partitions)) + b"".join(partitions)
    return body


def list_offsets(body: memoryview) -> dict[TopicPartition, ListedOffset]:
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        topic = reader.string()
        for _ in range(reader.int32()):
            partition, error, _timestamp, offset, _epoch = reader.take(_LISTED)
            found[topic, partition] = ListedOffset(error, offset)
    return found


def fetch_request(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
    min_bytes: int,
    read_committed: bool,
    rack: str,
) -> bytes:
    """One partition, and no fetch session, which pays off only for many idle partitions."""
    head = _FETCH_HEAD.pack(-1, max_wait_ms, min_bytes, max_bytes, read_committed, 0, -1)
    wanted = _FETCH_PARTITION.pack(partition, -1, offset, -1, max_bytes)
    one = _INT32.pack(1)
    return head + one + string(topic) + one + wanted + _INT32.pack(0) + string(rack)


def fetched(body: memoryview) -> FetchedPartition:
    reader = Reader(body)
    reader.int32()  # throttle time
    error = reader.int16()
    reader.int32()  # session
    if error or reader.int32() == 0:
        return FetchedPartition(error, -1, -1, [], -1, body[:0])
    reader.string()
    reader.int32()
    _partition, error, high_watermark, _stable, log_start = reader.take(_FETCHED)
    aborted = _aborted(reader)
    nearer = reader.int32()
    return FetchedPartition(error, high_watermark, log_start, aborted, nearer, reader.span(reader.int32()))


def _aborted(reader: Reader) -> list[tuple[int, int]]:
    count = reader.int32()
    numbers: Sequence[int] = reader.take(struct.Struct(f">{2 * max(count, 0)}q"))
    return list(zip(numbers[::2], numbers[1::2], strict=True))
