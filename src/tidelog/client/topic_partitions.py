"""All partitions of a cluster: DescribeTopicPartitions 0 (Kafka 3.7), page by page.

Metadata names a backup as leader while a primary is down, for the sake of readers; this request tells who
leads. Decoded by hand, because ten thousand partitions are asked for again and again.
"""

import struct
from typing import NamedTuple

from tidelog.client.messages import TopicMetadata
from tidelog.client.messages_by_id import id_text
from tidelog.client.reader import Reader, compact_string

VERSION = 0
PAGE_PARTITIONS = 2000

_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">hiii")
_ID_BYTES = 16
_NOTHING = b"\xff"


class PartitionSeen(NamedTuple):
    """One partition as a broker describes it."""

    leader: int  # -1: none
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()  # outside the in-sync set and still allowed to lead
    offline: tuple[int, ...] = ()  # replicas on brokers that are down, or whose logs have failed


class TopicSeen(NamedTuple):
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionSeen, ...]


Cursor = tuple[str, int]
"""Where the next page begins: topic and partition."""


def request(cursor: Cursor | None, limit: int = PAGE_PARTITIONS) -> bytes:
    """All topics from the cursor on."""
    begin = (
        _NOTHING if cursor is None else b"\x01" + compact_string(cursor[0]) + _INT32.pack(cursor[1]) + b"\x00"
    )
    return b"\x01" + _INT32.pack(limit) + begin + b"\x00"


def parse(body: memoryview) -> tuple[dict[str, TopicSeen], Cursor | None]:
    """Topics that can be described, and where the next page begins."""
    reader = Reader(body)
    reader.int32()  # throttle time
    topics = {}
    for _ in range(reader.compact_count()):
        error, name = reader.int16(), reader.compact_string()
        topic_id, is_internal = id_text(bytes(reader.span(_ID_BYTES))), reader.flag()
        partitions = tuple(_partition(reader) for _ in range(reader.compact_count()))
        reader.int32()  # authorized operations
        reader.skip_tags()
        if not error:
            topics[name] = TopicSeen(topic_id, is_internal, partitions)
    return topics, _cursor(reader)


def _partition(reader: Reader) -> PartitionSeen:
    _error, _index, leader, epoch = reader.take(_PARTITION)
    replicas, in_sync, eligible = reader.compact_numbers(), reader.compact_numbers(), reader.compact_numbers()
    reader.compact_numbers()  # the last known eligible ones
    offline = reader.compact_numbers()
    reader.skip_tags()
    return PartitionSeen(leader, epoch, replicas, in_sync, eligible, offline)


def _cursor(reader: Reader) -> Cursor | None:
    return None if reader.int8() < 0 else (reader.compact_string(), reader.int32())


def joined(pages: list[dict[str, TopicSeen]]) -> dict[str, TopicSeen]:
    """A topic may begin on one page and go on on the next one."""
    found: dict[str, TopicSeen] = {}
    for page in pages:
        for name, topic in page.items():
            before = found.get(name)
            found[name] = (
                topic
                if before is None
                else before._replace(partitions=(*before.partitions, *topic.partitions))
            )
    return found


def of_metadata(topic: TopicMetadata) -> TopicSeen:
    """The same from Metadata, for brokers that are too old for this request."""
    count = max(topic.partitions, default=-1) + 1
    missing = PartitionSeen(-1, -1, (), ())
    found = {
        index: PartitionSeen(each.leader, each.leader_epoch, each.replicas, each.in_sync)
        for index, each in topic.partitions.items()
    }
    partitions = tuple(found.get(index, missing) for index in range(count))
    return TopicSeen(topic.topic_id, topic.is_internal, partitions)
