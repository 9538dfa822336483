"""Produce, versions 3 to 13, by hand: the hottest request, whose records must not be copied.

Records are views of the received frame, so that offset and leader epoch are patched in place and the same
bytes go to the file. Version 9 made the encoding flexible, version 13 names topics by id.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from tidelog.errors import ErrorCode, RecordError
from tidelog.protocol.wire import (
    ELEMENTS_MAX,
    INT16,
    INT32,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_bytes,
    read_short_string,
    read_uvarint,
    skip_tags,
    write_array_size,
    write_string,
    write_uvarint,
)

API_KEY = 0
VERSIONS = (3, 13)
FLEXIBLE_FROM = 9
TOPIC_ID_FROM = 13

CORRELATION_END = 8  # api key, version and correlation id come before
CORRELATION_END_OF_RESPONSE = 8  # size and correlation id

TopicKey = str | UUID


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]


class ProducePartitionResponse(NamedTuple):
    """The result for one partition's records."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1  # -1 unless the topic uses the broker's time
    log_start_offset: int = -1
    message: str | None = None
    leader: tuple[int, int] | None = None  # (broker, epoch): the leader to use instead (KIP-951)
    refused_records: tuple[RecordError, ...] = ()  # because of which the batch was refused


class NodeAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


TopicResponses = list[tuple[TopicKey, list[ProducePartitionResponse]]]

_ACKS_AND_TIMEOUT = Struct(">hi")
_RESPONSE = Struct(">ihqqq")  # index, error, base offset, log append time, log start offset
_FRAME_START = Struct(">ii")  # size, correlation id


def decode(frame: memoryview, position: int, version: int) -> ProduceRequest:
    try:
        return _decode(frame, position, version)
    except (IndexError, ValueError, STRUCT_ERROR):  # ValueError: a topic id with fewer than 16 bytes
        raise Malformed("the produce request ends too early") from None


def _decode(frame: memoryview, position: int, version: int) -> ProduceRequest:
    flexible = version >= FLEXIBLE_FROM
    by_id = version >= TOPIC_ID_FROM
    transactional_id, position = read_short_string(frame, position, flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_array_size(frame, position + 6, flexible)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    left = ELEMENTS_MAX - topic_count
    for _ in range(topic_count):
        key: TopicKey
        if by_id:
            key = UUID(bytes=bytes(frame[position : position + 16]))
            position += 16
        else:
            name, position = read_short_string(frame, position, flexible)
            if name is None:
                raise Malformed("a topic without a name")
            key = name
        partition_count, position = read_array_size(frame, position, flexible)
        left -= partition_count
        if left < 0:
            raise Malformed("a produce request with too many partitions")
        partitions = []
        for _ in range(partition_count):
            (index,) = INT32.unpack_from(frame, position)
            records, position = read_bytes(frame, position + 4, flexible)
            if flexible:
                position = skip_tags(frame, position)
            partitions.append((index, records))
        if flexible:
            position = skip_tags(frame, position)
        topics.append((key, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode(
    version: int, correlation_id: int, topics: TopicResponses, nodes: list[NodeAddress] | None = None
) -> bytes:
    """The whole response frame. ``nodes`` are the addresses of the leaders named in the responses (version 10
    on).
    """
    flexible = version >= FLEXIBLE_FROM
    body = bytearray(8)
    if flexible:
        body += b"\x00"  # no tagged fields in the header
    body += write_array_size(len(topics), flexible)
    for key, responses in topics:
        body += key.bytes if isinstance(key, UUID) else write_string(key, flexible)
        body += write_array_size(len(responses), flexible)
        for response in responses:
            _encode_partition(body, version, response)
        if flexible:
            body += b"\x00"
    body += b"\x00\x00\x00\x00"  # throttle time
    if flexible:
        body += node_endpoints(nodes) if nodes and version >= 10 else b"\x00"
    _FRAME_START.pack_into(body, 0, len(body) - 4, correlation_id)
    return bytes(body)


def _encode_partition(body: bytearray, version: int, response: ProducePartitionResponse) -> None:
    packed = _RESPONSE.pack(
        response.partition,
        response.error,
        response.base_offset,
        response.log_append_time_ms,
        response.log_start_offset,
    )
    body += packed if version >= 5 else packed[:22]  # the log start offset was added in version 5
    if version < 8:
        return
    flexible = version >= FLEXIBLE_FROM
    body += write_array_size(len(response.refused_records), flexible)
    for index, reason in response.refused_records:
        body += INT32.pack(index) + write_string(reason, flexible)
        if flexible:
            body += b"\x00"
    body += write_string(response.message, flexible)
    if not flexible:
        return
    if response.leader is None or version < 10:
        body += b"\x00"
    else:
        broker, epoch = response.leader
        body += b"\x01\x00\x09" + INT32.pack(broker) + INT32.pack(epoch) + b"\x00"


def node_endpoints(nodes: list[NodeAddress]) -> bytes:
    """Tagged field 0 of the response: the addresses of the named leaders."""
    field = bytearray(write_uvarint(len(nodes) + 1))
    for node in nodes:
        field += INT32.pack(node.node_id) + write_string(node.host, True) + INT32.pack(node.port)
        field += write_string(node.rack, True) + b"\x00"
    return b"\x01\x00" + write_uvarint(len(field)) + bytes(field)


class Shape:
    """A request for one batch of one partition, as one connection sends it again and again.

    From the client id to the partition number nothing changes between two of them, so a comparison of bytes
    replaces parsing. Created from a parsed request; used only for requests that it can answer exactly.
    """

    __slots__ = (
        "_ending", "_flexible", "_last_size", "_prefix", "_records_at", "_same_size", "acks", "index", "key",
        "partition_at", "timeout_ms", "version",
    )  # fmt: skip

    def __init__(
        self, frame: memoryview, records: memoryview, version: int, acks: int, timeout_ms: int, key: TopicKey,
        index: int,
    ) -> None:  # fmt: skip
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.key = key
        self.index = index
        self._flexible = version >= FLEXIBLE_FROM
        # The empty tag sections of partition, topic and request follow the records.
        self._ending = b"\x00\x00\x00" if self._flexible else b""
        length = len(write_uvarint(len(records) + 1)) if self._flexible else 4
        self._records_at = len(frame) - len(self._ending) - len(records) - length
        self._prefix = bytes(frame[CORRELATION_END : self._records_at])
        # Where requests that differ only in partition and records have the number of the partition.
        self.partition_at = slice(self._records_at - 4, self._records_at)
        # Of an earlier frame: its size, everything in it but correlation id and records, how that is read,
        # and where the records are. Learned when two frames in turn have one size: it takes a microsecond.
        self._last_size = -1
        self._same_size: tuple[int, tuple[bytes, ...], Callable[[memoryview], tuple[bytes, ...]], slice] = (
            -1, (), _nothing, slice(0),
        )  # fmt: skip

    @property
    def partition(self) -> bytes:
        """Its number, as requests have it at ``partition_at``."""
        return self._prefix[-4:]

    def fits(self, frame: memoryview) -> bool:
        """Whether this shape can have been created from such a frame: nothing unusual after the records."""
        return self.records_of(frame) is not None

    def records_of(self, frame: memoryview) -> memoryview | None:
        """The records of a request of the same shape; None for any other."""
        # Requests that follow each other often have one size. Then everything before and after the records is
        # the same, and is compared at once.
        size, expected, read, place = self._same_size
        if size == len(frame) and read(frame) == expected:
            return frame[place]
        return self._find_records(frame)

    def _find_records(self, frame: memoryview) -> memoryview | None:
        at = self._records_at
        if frame[CORRELATION_END:at] != self._prefix:
            return None
        try:
            if self._flexible:
                size, at = read_uvarint(frame, at)
                size -= 1
            else:
                (size,) = INT32.unpack_from(frame, at)
                at += 4
        except (IndexError, STRUCT_ERROR):
            return None
        end = at + size
        if size <= 0 or end + len(self._ending) != len(frame) or frame[end:] != self._ending:
            return None
        if len(frame) != self._last_size:
            self._last_size = len(frame)
            return frame[at:end]
        read = Struct(f"{CORRELATION_END}x{at - CORRELATION_END}s{size}x{len(self._ending)}s").unpack_from
        self._same_size = len(frame), read(frame), read, slice(at, end)
        return frame[at:end]


def _nothing(frame: memoryview) -> tuple[bytes, ...]:
    return ()


class PlainEncoder:
    """The response to one batch for one partition without an error, which is nearly every response.

    Everything but correlation id and offsets is constant, so it is packed into a template once.
    """

    __slots__ = ("_after", "_before", "_pack", "_size")

    def __init__(self, version: int, topic: TopicKey, partition: int) -> None:
        marker = ProducePartitionResponse(partition, ErrorCode.NONE, 0x7E5E7E5E7E5E, -1, 0)
        template = encode(version, 0, [(topic, [marker])])
        at = template.index(INT16.pack(0) + (0x7E5E7E5E7E5E).to_bytes(8, "big")) + 2
        self._size = template[:4]
        self._before, self._after = template[CORRELATION_END_OF_RESPONSE:at], template[at + 24 :]
        # One call for all of it: base offset, append time and log start offset are next to each other.
        self._pack = Struct(f">4si{len(self._before)}sqqq{len(self._after)}s").pack

    def encode(
        self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        return self._pack(
            self._size, correlation_id, self._before, base_offset, log_append_time_ms, log_start_offset,
            self._after,
        )  # fmt: skip
