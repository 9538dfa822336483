"""The records inside a batch: opened where they must be read, written where the broker creates some.

Owns the layout of a record (lengths and numbers are zigzag varints) and the rules for the records of
one batch. The broker's hot path comes here only through :mod:`tidelog.protocol.framing`; compaction,
``tidelog log dump``, topics that require another codec or a key on every record, and the broker's own records
do directly.

=================  ========  ===============================================
field              type      notes
=================  ========  ===============================================
length             varint    bytes after this field
attributes         int8      unused
timestamp delta    varlong   against the batch's base timestamp
offset delta       varint    against the batch's base offset
key length, key    varint    -1: no key
value length, …    varint    -1: no value (a tombstone if there is a key)
header count, …    varint    each: key length, key, value length (-1: null), value
=================  ========  ===============================================

Input is never trusted: only :class:`CorruptBatch` is raised, whatever the bytes are. If the CRC is valid and
the content is not, it carries INVALID_RECORD: the client must not send the same again.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from mmap import mmap
from struct import Struct
from typing import NamedTuple

from tidelog.errors import CorruptBatch, ErrorCode, RecordError
from tidelog.invariant import invariant
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader, Buffer
from tidelog.protocol.codecs import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress

_INT32_MAX = (1 << 31) - 1
RECORDS_PER_PACE = 256
_CONTROL_KEY = Struct(">hh")

Headers = tuple[tuple[str, bytes | None], ...]
Bytes = bytes | bytearray | mmap
"""Read byte by byte, which takes twice as long with a memoryview."""


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int  # milliseconds; -1 if the producer gave none
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RawRecord(NamedTuple):
    """Where the parts of one record are in its batch's payload: enough to judge or copy it unread."""

    start: int  # of the length field
    end: int  # exclusive
    timestamp_delta: int
    after_timestamp: int  # position of the offset delta: from here on a copy is unchanged
    offset_delta: int
    key_start: int
    key_size: int  # -1: no key
    value_start: int
    value_size: int  # -1: no value


_new_raw: Callable[[tuple[int, ...]], RawRecord] = partial(tuple.__new__, RawRecord)


class ControlType(IntEnum):
    """The type of a control record; second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    SEAL = 64  # Tidelog's own, far from Kafka's numbers: ends a log that voters replicated.
    LOG_START = 65  # Tidelog's own: a replica that holds it has deleted all records before the offset in it.


class RecordsSummary(NamedTuple):
    """The result of one pass over the records of a producer's batch."""

    min_timestamp: int
    max_timestamp: int
    first_missing_key: int | None  # index in the batch


def _invalid(reason: str) -> CorruptBatch:
    return CorruptBatch(reason, ErrorCode.INVALID_RECORD)


# -- varints -------------------------------------------------------------------------


def append_varint(buffer: bytearray, value: int) -> None:
    """Zigzag: small numbers of either sign take one byte."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    buffer.append(rest)


def varint_size(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    return max(1, (rest.bit_length() + 6) // 7)


def read_varint(payload: Buffer | Bytes, position: int, bits: int = 32) -> tuple[int, int]:
    """(value, position after it). Raises IndexError at the end of the payload, which the callers convert."""
    byte = payload[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise _invalid(f"a number in a record is longer than {bits} bits allow")
    if value >> bits:
        raise _invalid(f"a number in a record is longer than {bits} bits allow")
    return (value >> 1) ^ -(value & 1), position


# -- reading -------------------------------------------------------------------------


def payload_of(batch: Buffer, header: BatchHeader, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The records of a whole batch as bytes, decompressed."""
    view = memoryview(batch)[batches.HEADER_SIZE : header.size]
    if header.count == 0 and not view:
        return view  # an empty batch left by compaction has no payload, whatever its codec
    return decompress(header.codec, view, limit)


def scan(payload: Buffer, count: int) -> Iterator[RawRecord]:
    """The outline of each of ``count`` records; checks every length, and that nothing is left over."""
    # Indexing a memoryview takes twice as long.
    data = payload if isinstance(payload, bytes | bytearray) else bytes(payload)
    position = 0
    try:
        for _ in range(count):
            record = outline(data, position, len(data))
            position = record[1]
            yield record
    except IndexError:
        raise _invalid("the records end inside a record") from None
    if position != len(data):
        raise _invalid(f"{len(data) - position} bytes are left over after {count} records")


def outline(data: Bytes, start: int, limit: int) -> RawRecord:
    """One record, which ends at ``limit`` at the latest; raises IndexError at the end of the data.

    Numbers of one byte are read in place: a call for each would double compaction's time.
    """
    byte = data[start]
    length, position = (byte >> 1 ^ -(byte & 1), start + 1) if byte < 0x80 else read_varint(data, start)
    end = position + length
    if length < 0 or end > limit:
        raise _invalid(f"a record claims {length} bytes, {limit - position} are there")
    position += 1  # attributes
    byte = data[position]
    if byte < 0x80:
        timestamp_delta, after_timestamp = byte >> 1 ^ -(byte & 1), position + 1
    else:
        timestamp_delta, after_timestamp = read_varint(data, position, 64)
    byte = data[after_timestamp]
    if byte < 0x80:
        offset_delta, position = byte >> 1 ^ -(byte & 1), after_timestamp + 1
    else:
        offset_delta, position = read_varint(data, after_timestamp)
    byte = data[position]
    key_size, key_start = (
        (byte >> 1 ^ -(byte & 1), position + 1) if byte < 0x80 else read_varint(data, position)
    )
    key_end = key_start + key_size if key_size > 0 else key_start
    if key_size < -1 or key_end > end:
        raise _invalid(f"a key claims {key_size} bytes in a record of {length}")
    byte = data[key_end]
    value_size, value_start = (
        (byte >> 1 ^ -(byte & 1), key_end + 1) if byte < 0x80 else read_varint(data, key_end)
    )
    value_end = value_start + value_size if value_size > 0 else value_start
    if value_size < -1 or value_end > end:
        raise _invalid(f"a value claims {value_size} bytes in a record of {length}")
    if data[value_end] or value_end + 1 != end:
        _check_headers(data, value_end, end)
    return _new_raw(
        (
            start,
            end,
            timestamp_delta,
            after_timestamp,
            offset_delta,
            key_start,
            key_size,
            value_start,
            value_size,
        )
    )


def _check_headers(payload: Bytes, position: int, end: int) -> None:
    count, position = read_varint(payload, position)
    if count < 0 or count > end:
        raise _invalid(f"impossible number of headers: {count}")
    for _ in range(count):
        size, position = read_varint(payload, position)
        if size < 0 or position + size > end:
            raise _invalid(f"a header's key claims {size} bytes")
        size, position = read_varint(payload, position + size)
        if size < -1 or position + size > end:
            raise _invalid(f"a header's value claims {size} bytes")
        position += max(size, 0)
    if position != end:
        raise _invalid(f"a record's content ends {position - end:+} bytes from where the record ends")


def _read_headers(payload: Buffer, position: int) -> Headers:
    """The headers of a record that :func:`scan` has checked."""
    count, position = read_varint(payload, position)
    headers = []
    for _ in range(count):
        size, position = read_varint(payload, position)
        # Producers may send keys that are not UTF-8: kept in a form that encodes to the same bytes.
        key = bytes(payload[position : position + size]).decode("utf-8", "surrogateescape")
        size, position = read_varint(payload, position + size)
        value = None if size < 0 else bytes(payload[position : position + size])
        headers.append((key, value))
        position += max(size, 0)
    return tuple(headers)


def decode_batch(
    batch: Buffer, header: BatchHeader | None = None, limit: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of one batch, checked first unless the caller passes the checked header."""
    if header is None:
        header = batches.check(batch)
    payload = payload_of(batch, header, limit)
    for raw in scan(payload, header.count):
        yield _record(payload, header, raw)


def _record(payload: Buffer, header: BatchHeader, raw: RawRecord) -> Record:
    timestamp = (
        header.max_timestamp if header.is_log_append_time else header.base_timestamp + raw.timestamp_delta
    )
    value_end = raw.value_start + max(raw.value_size, 0)
    return Record(
        header.base_offset + raw.offset_delta,
        timestamp,
        None if raw.key_size < 0 else bytes(payload[raw.key_start : raw.key_start + raw.key_size]),
        None if raw.value_size < 0 else bytes(payload[raw.value_start : value_end]),
        _read_headers(payload, value_end),
    )


def control_type(key: bytes | None) -> ControlType | int:
    """The type of a control record; a plain number if it is newer than this code."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise _invalid("a control record has no version and type in its key")
    number: int = _CONTROL_KEY.unpack_from(key)[1]
    try:
        return ControlType(number)
    except ValueError:
        return number


def control_key(kind: ControlType, version: int = 0) -> bytes:
    return _CONTROL_KEY.pack(version, kind)


# -- what the broker asks about a producer's batch -----------------------------------


def validate_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    limit: int = MAX_DECOMPRESSED_BYTES,
    pace: Callable[[], None] = lambda: None,
) -> RecordsSummary:
    """One pass over a producer's batch: the number of records must match the header, offsets must be 0, 1, 2,
    …

    ``pace`` is called now and then, for a thread that must yield.
    """
    if header is None:
        header = batches.check(batch)
    if header.count < 1 or header.count != header.last_offset_delta + 1:
        raise _invalid(f"{header.count} records cannot have the last offset delta {header.last_offset_delta}")
    oldest: int | None = None
    newest = 0
    missing: int | None = None
    for index, raw in enumerate(scan(payload_of(batch, header, limit), header.count)):
        if not index % RECORDS_PER_PACE:
            pace()
        if raw.offset_delta != index:
            reason = f"record {index} of the batch has the offset delta {raw.offset_delta}"
            raise CorruptBatch(reason, ErrorCode.INVALID_RECORD, (RecordError(index, reason),))
        if raw.key_size < 0 and missing is None:
            missing = index
        delta = raw.timestamp_delta
        if oldest is None:
            oldest = newest = delta
        elif delta < oldest:
            oldest = delta
        elif delta > newest:
            newest = delta
    base = header.base_timestamp
    return RecordsSummary(base + (oldest or 0), base + newest, missing)


def first_missing_key(batch: Buffer, header: BatchHeader | None = None) -> int | None:
    """Index in the batch of the first record without a key, which a compacted topic cannot accept."""
    if header is None:
        header = batches.check(batch)
    for index, raw in enumerate(scan(payload_of(batch, header), header.count)):
        if raw.key_size < 0:
            return index
    return None


def has_null_key(batch: Buffer, header: BatchHeader | None = None) -> bool:
    return first_missing_key(batch, header) is not None


def recompress(
    batch: Buffer, codec: int, payload: Buffer | None = None, limit: int = MAX_DECOMPRESSED_BYTES
) -> bytearray:
    """The same batch with its payload in another codec; every other field stays. ``payload`` is the
    decompressed payload, if known.
    """
    header = batches.parse_header(batch)
    view = memoryview(batch)
    if header.codec == codec:
        return bytearray(view[: header.size])
    if payload is None:
        payload = decompress(header.codec, view[batches.HEADER_SIZE : header.size], limit)
    attributes = header.attributes & ~batches.CODEC_MASK | codec
    return batches.rebuild(header, compress(codec, payload), attributes=attributes)


# -- writing -------------------------------------------------------------------------


def append_record(buffer: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    """Encode one record behind what ``buffer`` holds."""
    offset, timestamp, key, value, headers = record
    if timestamp == base_timestamp and 0 <= offset - base_offset < 64:
        body = bytearray((0, 0, (offset - base_offset) << 1))  # attributes, and two numbers of one byte
    else:
        body = bytearray(1)
        append_varint(body, timestamp - base_timestamp)
        append_varint(body, offset - base_offset)
    _append_bytes(body, key)
    _append_bytes(body, value)
    append_varint(body, len(headers))
    for name, value in headers:
        _append_bytes(body, name.encode("utf-8", "surrogateescape"))
        _append_bytes(body, value)
    append_varint(buffer, len(body))
    buffer += body


def _append_bytes(buffer: bytearray, data: bytes | None) -> None:
    if data is None:
        buffer.append(1)  # -1 in zigzag
    else:
        append_varint(buffer, len(data))
        buffer += data


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """A complete batch of records with ascending offsets; base offset and timestamp are the first one's."""
    invariant(bool(records), "a batch needs at least one record")
    base_offset, base_timestamp = records[0].offset, records[0].timestamp
    payload = bytearray()
    previous = base_offset - 1
    for record in records:
        invariant(record.offset > previous, "offsets in a batch must ascend", previous, record.offset)
        append_record(payload, record, base_offset, base_timestamp)
        previous = record.offset
    invariant(
        previous - base_offset <= _INT32_MAX, "offsets of one batch lie too far apart", base_offset, previous
    )
    attributes = int(codec)
    if transactional:
        attributes |= batches.TRANSACTIONAL_MASK
    if control:
        attributes |= batches.CONTROL_MASK
    return batches.build(
        compress(codec, payload),
        base_offset=base_offset,
        last_offset_delta=previous - base_offset,
        count=len(records),
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        attributes=attributes,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
