"""Fetch, versions 4 to 18, by hand: the most frequent request of consumers and followers, whose response
carries the data.

The response is a list of parts: small byte strings made here, and between them the records as they are
(regions of segment files, or bytes), without a copy. Version 7 added sessions, 12 the flexible encoding and
divergence, 13 topic ids, 15 the replica state as a tagged field.
"""

from struct import Struct
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.produce import NodeAddress, TopicKey, node_endpoints
from tidelog.protocol.wire import (
    ELEMENTS_MAX,
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_short_string,
    read_uvarint,
    skip_tags,
    write_array_size,
    write_string,
    write_uvarint,
)

API_KEY = 1
VERSIONS = (4, 18)
SESSIONS_FROM = 7
FLEXIBLE_FROM = 12
TOPIC_ID_FROM = 13
REPLICA_STATE_FROM = 15

NO_SESSION = 0
INITIAL_EPOCH = 0  # requests a new session
FINAL_EPOCH = -1  # requests no session, or ends one


class FetchPartition(NamedTuple):
    """What one reader requests of one partition; also what a session remembers."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequest(NamedTuple):
    replica_id: int  # -1 for consumers
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten: list[tuple[TopicKey, list[int]]]
    rack_id: str


class Records(Protocol):
    """Batches to send: a region of a segment file, or bytes."""

    @property
    def size(self) -> int: ...


Part = bytearray | Records
"""A piece of a response, in sending order."""


class FetchPartitionResponse(NamedTuple):
    partition: int
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Records | None = None
    aborted: list[tuple[int, int]] | None = None  # (producer id, first offset), read_committed only
    diverging: tuple[int, int] | None = (
        None  # (epoch, end offset) up to which the follower's log equals the leader's
    )
    leader: tuple[int, int] | None = None  # (broker, epoch): the leader to use instead (KIP-951)
    preferred_read_replica: int = -1


_HEAD_V15 = Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_HEAD_V4 = Struct(">iiiib")  # replica id before these
_SESSION = Struct(">ii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iq")


def decode(frame: memoryview, position: int, version: int) -> FetchRequest:
    try:
        return _decode(frame, position, version)
    except (IndexError, ValueError, STRUCT_ERROR):  # ValueError: a topic id with fewer than 16 bytes
        raise Malformed("the fetch request ends too early") from None


def _decode(frame: memoryview, position: int, version: int) -> FetchRequest:
    flexible = version >= FLEXIBLE_FROM
    replica_id = -1
    replica_epoch = -1
    if version >= REPLICA_STATE_FROM:
        max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD_V15.unpack_from(frame, position)
        position += 13
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD_V4.unpack_from(frame, position)
        position += 17
    session_id, session_epoch = NO_SESSION, FINAL_EPOCH
    if version >= SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(frame, position)
        position += 8
    topics, position = _decode_topics(frame, position, version)
    forgotten: list[tuple[TopicKey, list[int]]] = []
    if version >= SESSIONS_FROM:
        forgotten, position = _decode_forgotten(frame, position, version)
    rack_id: str | None = ""
    if version >= 11:
        rack_id, position = read_short_string(frame, position, flexible)
    if version >= REPLICA_STATE_FROM:
        replica_id, replica_epoch = _decode_replica_state(frame, position)
    return FetchRequest(
        replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level,
        session_id, session_epoch, topics, forgotten, rack_id or "",
    )  # fmt: skip


def _decode_topics(
    frame: memoryview, position: int, version: int
) -> tuple[list[tuple[TopicKey, list[FetchPartition]]], int]:
    flexible = version >= FLEXIBLE_FROM
    count, position = read_array_size(frame, position, flexible)
    topics = []
    left = ELEMENTS_MAX - count
    for _ in range(count):
        key, position = _decode_topic_key(frame, position, version)
        partition_count, position = read_array_size(frame, position, flexible)
        left -= partition_count
        if left < 0:
            raise Malformed("a fetch of too many partitions")
        partitions = []
        for _ in range(partition_count):
            partition, position = _decode_partition(frame, position, version)
            if flexible:
                position = skip_tags(frame, position)
            partitions.append(partition)
        if flexible:
            position = skip_tags(frame, position)
        topics.append((key, partitions))
    return topics, position


def _decode_topic_key(frame: memoryview, position: int, version: int) -> tuple[TopicKey, int]:
    if version >= TOPIC_ID_FROM:
        return UUID(bytes=bytes(frame[position : position + 16])), position + 16
    name, position = read_short_string(frame, position, version >= FLEXIBLE_FROM)
    if name is None:
        raise Malformed("a topic without a name")
    return name, position


def _decode_partition(frame: memoryview, position: int, version: int) -> tuple[FetchPartition, int]:
    if version >= 12:
        return FetchPartition._make(_PARTITION_V12.unpack_from(frame, position)), position + 32
    if version >= 9:
        index, epoch, offset, log_start, max_bytes = _PARTITION_V9.unpack_from(frame, position)
        return FetchPartition(index, epoch, offset, -1, log_start, max_bytes), position + 28
    if version >= 5:
        index, offset, log_start, max_bytes = _PARTITION_V5.unpack_from(frame, position)
        return FetchPartition(index, -1, offset, -1, log_start, max_bytes), position + 24
    index, offset, max_bytes = _PARTITION_V4.unpack_from(frame, position)
    return FetchPartition(index, -1, offset, -1, -1, max_bytes), position + 16


def _decode_forgotten(
    frame: memoryview, position: int, version: int
) -> tuple[list[tuple[TopicKey, list[int]]], int]:
    flexible = version >= FLEXIBLE_FROM
    count, position = read_array_size(frame, position, flexible)
    forgotten = []
    left = ELEMENTS_MAX - count
    for _ in range(count):
        key, position = _decode_topic_key(frame, position, version)
        partition_count, position = read_array_size(frame, position, flexible)
        left -= partition_count
        if left < 0:
            raise Malformed("a fetch that forgets too many partitions")
        partitions = []
        for _ in range(partition_count):
            partitions.append(INT32.unpack_from(frame, position)[0])
            position += 4
        if flexible:
            position = skip_tags(frame, position)
        forgotten.append((key, partitions))
    return forgotten, position


def _decode_replica_state(frame: memoryview, position: int) -> tuple[int, int]:
    """Tagged field 1 names the replica that fetches; consumers leave it out."""
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == 1:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(frame, position)
            return replica_id, replica_epoch
        position += size
    return -1, -1


_RESPONSE_START = Struct(">ii")  # size, correlation id
_PARTITION = Struct(">ihqq")  # index, error, high watermark, last stable offset
_ABORTED = Struct(">qq")


class FetchResponseBuilder:
    """Collects the parts of one fetch response, in order, without touching the records."""

    __slots__ = ("_flexible", "_open", "_size", "_version", "parts")

    def __init__(
        self, version: int, correlation_id: int, error: ErrorCode, session_id: int, topic_count: int
    ) -> None:
        flexible = version >= FLEXIBLE_FROM
        start = bytearray(_RESPONSE_START.pack(0, correlation_id))
        if flexible:
            start += b"\x00"
        start += b"\x00\x00\x00\x00"  # throttle time
        if version >= SESSIONS_FROM:
            start += INT16.pack(error) + INT32.pack(session_id)
        start += write_array_size(topic_count, flexible)
        self._version = version
        self._flexible = flexible
        self._open = start  # bytes not yet in ``parts``; the first one begins with the frame size
        self._size = 0  # bytes in ``parts``
        self.parts: list[Part] = []

    def topic(self, key: TopicKey, partition_count: int) -> None:
        self._open += key.bytes if isinstance(key, UUID) else write_string(key, self._flexible)
        self._open += write_array_size(partition_count, self._flexible)

    def end_topic(self) -> None:
        if self._flexible:
            self._open += b"\x00"

    def partition(self, response: FetchPartitionResponse) -> None:
        version, flexible = self._version, self._flexible
        out = self._open
        out += _PARTITION.pack(
            response.partition, response.error, response.high_watermark, response.last_stable_offset
        )
        if version >= 5:
            out += INT64.pack(response.log_start_offset)
        self._aborted(response.aborted)
        if version >= 11:
            out += INT32.pack(response.preferred_read_replica)
        records = response.records
        size = 0 if records is None else records.size
        out += write_uvarint(size + 1) if flexible else INT32.pack(size)
        if records is not None and size:
            self._close_part()
            self.parts.append(records)
            self._size += size
        if flexible:
            self._tags(response)

    def _aborted(self, aborted: list[tuple[int, int]] | None) -> None:
        out = self._open
        if aborted is None:
            out += b"\x00" if self._flexible else b"\xff\xff\xff\xff"
            return
        out += write_array_size(len(aborted), self._flexible)
        for producer_id, first_offset in aborted:
            out += _ABORTED.pack(producer_id, first_offset)
            if self._flexible:
                out += b"\x00"

    def _tags(self, response: FetchPartitionResponse) -> None:
        if response.diverging is None and response.leader is None:
            self._open += b"\x00"
            return
        fields = []
        if response.diverging is not None:
            epoch, end_offset = response.diverging
            fields.append(b"\x00\x0d" + INT32.pack(epoch) + INT64.pack(end_offset) + b"\x00")
        if response.leader is not None:
            broker, epoch = response.leader
            fields.append(b"\x01\x09" + INT32.pack(broker) + INT32.pack(epoch) + b"\x00")
        self._open += write_uvarint(len(fields)) + b"".join(fields)

    def _close_part(self) -> None:
        self.parts.append(self._open)
        self._size += len(self._open)
        self._open = bytearray()

    def finish(self, nodes: list[NodeAddress] | None = None) -> list[Part]:
        """All parts; the first begins with the size of the whole frame."""
        if self._flexible:
            self._open += node_endpoints(nodes) if nodes and self._version >= 16 else b"\x00"
        self._close_part()
        first = self.parts[0]
        INT32.pack_into(first, 0, self._size - 4)  # type: ignore[arg-type]
        return self.parts
