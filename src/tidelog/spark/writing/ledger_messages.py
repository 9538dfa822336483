"""The bodies of requests about the committed offsets that hold the ledger.

The versions are served by Kafka 2.5 and newer.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.apis import Api
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader, string
from tidelog.protocol.wire import write_string
from tidelog.spark.writing.messages import ProducerId

VERSIONS: dict[int, int] = {
    Api.ADD_OFFSETS_TO_TXN: 2,
    Api.TXN_OFFSET_COMMIT: 2,
    Api.OFFSET_FETCH: 7,
}

_INT32 = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_OFFSET = struct.Struct(">iqi")


class CommittedOffset(NamedTuple):
    offset: int
    metadata: str


def add_offsets_request(name: str, producer: ProducerId, group: str) -> bytes:
    return string(name) + _PRODUCER.pack(*producer) + string(group)


def offset_commit_request(
    name: str, producer: ProducerId, group: str, topic: str, offsets: Mapping[int, CommittedOffset]
) -> bytes:
    """In a transaction, and from outside the group, which has no members."""
    body = string(name) + string(group) + _PRODUCER.pack(*producer)
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
    """Everything the group has; refused while a transaction of it is neither committed nor aborted."""
    return write_string(group, True) + b"\x00" + b"\x01" + b"\x00"


def offset_fetch(body: memoryview) -> tuple[int, dict[TopicPartition, CommittedOffset]]:
    """The first error of the group or of any partition, and the offsets."""
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    errors = []
    for _ in range(reader.compact_count()):
        topic = reader.compact_string()
        for _ in range(reader.compact_count()):
            partition, offset, _epoch = reader.take(_OFFSET)
            found[topic, partition] = CommittedOffset(offset, reader.compact_string())
            errors.append(reader.int16())
            reader.skip_tags()
        reader.skip_tags()
    errors.insert(0, reader.int16())
    return next(filter(None, errors), 0), found
