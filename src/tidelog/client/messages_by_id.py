"""Metadata and Fetch in the oldest versions that carry topic ids: 10 (Kafka 2.8) and 13 (Kafka 3.1).

A topic that is deleted and created again has the same name and another id. A fetch by id is refused then,
where a fetch by name would return other records.
"""

import base64
import binascii
import struct
from collections.abc import Iterable

from tidelog.client.messages import FetchedPartition, Metadata, PartitionMetadata, TopicMetadata
from tidelog.client.reader import Reader, compact_string, uvarint

METADATA_VERSION = 10
FETCH_VERSION = 13

_ID_BYTES = 16
_NO_ID = bytes(_ID_BYTES)
_FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqiqi")
_FETCHED = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_ONE = uvarint(2)  # the length of an array is written plus one
_EMPTY = uvarint(1)
_NO_TAGS = b"\x00"


def id_text(topic_id: bytes) -> str:
    """As Kafka's tools print it; empty for a topic without an id."""
    if topic_id == _NO_ID:
        return ""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """ValueError: not a topic id."""
    try:
        found = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != _ID_BYTES or id_text(found) != text:
        raise ValueError(f"{text!r} is not a topic id")
    return found


def metadata_request(topics: Iterable[str] | None) -> bytes:
    """None: all topics. Topics are not auto-created."""
    options = b"\x00\x00\x00"  # no auto-creation; no authorized operations, neither of cluster nor topics
    if topics is None:
        return _NO_TAGS + options + _NO_TAGS
    names = [_NO_ID + compact_string(name) + _NO_TAGS for name in topics]
    return uvarint(len(names) + 1) + b"".join(names) + options + _NO_TAGS


def metadata(body: memoryview) -> Metadata:
    reader = Reader(body)
    reader.int32()  # throttle time
    brokers = {}
    for _ in range(reader.compact_count()):
        broker_id, host, port = reader.int32(), reader.compact_string(), reader.int32()
        reader.compact_string()  # rack
        reader.skip_tags()
        brokers[broker_id] = (host, port)
    reader.compact_string()  # cluster id
    reader.int32()  # controller
    topics = {}
    for _ in range(reader.compact_count()):
        error, name = reader.int16(), reader.compact_string()
        topic_id, is_internal = id_text(bytes(reader.span(_ID_BYTES))), reader.flag()
        partitions = dict(_partition_metadata(reader) for _ in range(reader.compact_count()))
        reader.int32()  # authorized operations
        reader.skip_tags()
        topics[name] = TopicMetadata(error, is_internal, partitions, topic_id)
    return Metadata(brokers, topics)


def _partition_metadata(reader: Reader) -> tuple[int, PartitionMetadata]:
    error, index, leader, epoch = reader.int16(), reader.int32(), reader.int32(), reader.int32()
    replicas, in_sync, _offline = (reader.compact_numbers() for _ in range(3))
    reader.skip_tags()
    return index, PartitionMetadata(error, leader, epoch, replicas, in_sync)


def fetch_request(
    topic_id: str,
    partition: int,
    offset: int,
    *,
    max_bytes: int,
    max_wait_ms: int,
    min_bytes: int,
    read_committed: bool,
    rack: str,
) -> bytes:
    """One partition, without a fetch session."""
    head = _FETCH_HEAD.pack(-1, max_wait_ms, min_bytes, max_bytes, read_committed, 0, -1)
    wanted = _FETCH_PARTITION.pack(partition, -1, offset, -1, -1, max_bytes) + _NO_TAGS
    topic = id_bytes(topic_id) + _ONE + wanted + _NO_TAGS
    return head + _ONE + topic + _EMPTY + compact_string(rack) + _NO_TAGS


def fetched(body: memoryview) -> FetchedPartition:
    reader = Reader(body)
    reader.int32()  # throttle time
    error = reader.int16()
    reader.int32()  # session
    if error or reader.compact_count() == 0:
        return FetchedPartition(error, -1, -1, [], -1, body[:0])
    reader.span(_ID_BYTES)
    reader.compact_count()
    _partition, error, high_watermark, _stable, log_start = reader.take(_FETCHED)
    aborted = [_aborted(reader) for _ in range(reader.compact_count())]
    nearer = reader.int32()
    records = reader.span(reader.uvarint() - 1)
    return FetchedPartition(error, high_watermark, log_start, aborted, nearer, records)


def _aborted(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.take(_ABORTED)
    reader.skip_tags()
    return producer_id, first_offset
