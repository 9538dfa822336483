"""The record batch, version 2: the unit a producer sends, the log stores and a consumer reads.

Owns the layout of the 61-byte header and what may be changed in it without touching the records: the broker
assigns offset, leader epoch and (for LogAppendTime) the timestamp by patching bytes in place. The records
behind the header stay opaque here; :mod:`tidelog.protocol.records` opens them where something must.

====== ==== ======================  =====================================================
offset size field                   notes
====== ==== ======================  =====================================================
0      8    base offset             assigned by the leader; not covered by the CRC
8      4    batch length            bytes after this field
12     4    partition leader epoch  assigned by the leader; not covered by the CRC
16     1    magic                   2
17     4    CRC-32C                 over everything from ``attributes`` on
21     2    attributes              codec (bits 0-2), timestamp type (3), transactional (4), control (5),
                                    delete horizon (6)
23     4    last offset delta
27     8    base timestamp          records hold the difference to it; the delete horizon when bit 6 is set
35     8    max timestamp
43     8    producer id
51     2    producer epoch
53     4    base sequence
57     4    record count            fewer than last offset delta + 1 after compaction, down to none
====== ==== ======================  =====================================================
"""

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.errors import CorruptBatch, ErrorCode

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LENGTH_PREFIX_SIZE = 12  # base offset and batch length: enough to find the next batch
MAGIC = 2
CRC_FROM = 21  # first byte the CRC covers

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40  # base timestamp holds the time after which tombstones may be removed

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qi")
_PLACE = Struct(">qii")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class BatchHeader(NamedTuple):
    """A parsed header, fields in wire order."""

    base_offset: int
    length: int  # bytes after the length field; the batch occupies length + 12 bytes
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int  # -1 if no record has one
    producer_id: int  # -1 without idempotence
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # of records; hides tuple.count(), which is not needed

    @property
    def size(self) -> int:
        """All bytes of the batch, header included."""
        return self.length + LENGTH_PREFIX_SIZE

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Exclusive end offset of the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From this time on compaction may remove the batch's tombstones; None until a pass has set it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None


# What BatchHeader._make does, without a call: every batch is parsed several times on its way.
make_header: Callable[[tuple[int, ...]], BatchHeader] = partial(tuple.__new__, BatchHeader)
unpack_header: Callable[[Buffer], tuple[int, ...]] = _HEADER.unpack_from


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at ``position``; the caller ensures that 61 bytes are there. Checks nothing."""
    return make_header(_HEADER.unpack_from(buffer, position))


def parse_prefix(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """(base offset, size in bytes) of the batch at ``position``: enough to find the next one."""
    base_offset, length = _PREFIX.unpack_from(buffer, position)
    return base_offset, length + LENGTH_PREFIX_SIZE


def parse_leader_epoch(buffer: Buffer, position: int = 0) -> int:
    """The leader epoch of the batch at ``position``."""
    epoch: int = _EPOCH.unpack_from(buffer, position + LENGTH_PREFIX_SIZE)[0]
    return epoch


def check(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of a complete and valid batch at ``position``; :class:`CorruptBatch` says what is wrong.

    Checks length, magic, CRC and that the counts fit together: everything that can be checked without opening
    the records.
    """
    available = len(buffer) - position
    if available < HEADER_SIZE:
        raise CorruptBatch(f"{available} bytes are too few for a batch header of {HEADER_SIZE}")
    header = make_header(_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        # Before the length: older formats have the same prefix, and should get the correct error.
        raise CorruptBatch(f"magic byte {header.magic}, only {MAGIC} is supported", ErrorCode.INVALID_RECORD)
    size = header.length + LENGTH_PREFIX_SIZE
    if size < HEADER_SIZE or size > available:
        raise CorruptBatch(f"the batch claims {size} bytes, {available} are there")
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    if crc32c(view[position + CRC_FROM : position + size]) != header.crc:
        raise CorruptBatch("the CRC does not match")
    if not 0 <= header.count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise CorruptBatch(
            f"impossible counts: {header.count} records, last offset delta {header.last_offset_delta}",
            ErrorCode.INVALID_RECORD,
        )
    return header


def iterate(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch; stops before a partial one, which may end a fetch."""
    stop = len(buffer) if end is None else end
    while stop - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        size = header.length + LENGTH_PREFIX_SIZE
        if size < HEADER_SIZE or position + size > stop:
            return
        yield position, header
        position += size


def iterate_checked(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The same, with every batch checked; raises :class:`CorruptBatch`."""
    position, stop = 0, len(buffer)
    while stop - position >= HEADER_SIZE:
        size = _PREFIX.unpack_from(buffer, position)[1] + LENGTH_PREFIX_SIZE
        if size < HEADER_SIZE or position + size > stop:
            return
        yield position, check(buffer, position)
        position += size


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set the batch's offset and leader epoch, which the CRC does not cover."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + 12, leader_epoch)


def assign_whole(buffer: bytearray | memoryview, base_offset: int, length: int, leader_epoch: int) -> None:
    """The same for the single batch in ``buffer``, whose length is known: one call on the produce path."""
    _PLACE.pack_into(buffer, 0, base_offset, length, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, size: int, timestamp_ms: int) -> None:
    """Set the broker's time (LogAppendTime) for the whole batch; the base timestamp stays, as in Kafka."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + CRC_FROM)
    _ATTRIBUTES.pack_into(buffer, position + CRC_FROM, attributes | TIMESTAMP_TYPE_MASK)
    _TIMESTAMP.pack_into(buffer, position + 35, timestamp_ms)
    write_crc(buffer, position, size)


def set_max_timestamp(buffer: bytearray | memoryview, timestamp_ms: int) -> BatchHeader:
    """Set another largest timestamp in the single batch in ``buffer``; returns its new header."""
    _TIMESTAMP.pack_into(buffer, 35, timestamp_ms)
    write_crc(buffer, 0, len(buffer))
    return parse_header(buffer)


def write_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Write the CRC of the bytes."""
    view = memoryview(buffer)
    _CRC.pack_into(buffer, position + 17, crc32c(view[position + CRC_FROM : position + size]))


def write_header(
    buffer: bytearray | memoryview,
    size: int,
    *,
    base_offset: int,
    last_offset_delta: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> None:
    """Write header and CRC of a batch into the first ``size`` bytes, whose records already follow
    the header.
    """
    _HEADER.pack_into(
        buffer, 0, base_offset, size - LENGTH_PREFIX_SIZE, leader_epoch, MAGIC, 0, attributes,
        last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    write_crc(buffer, 0, size)


def build(records: Buffer, **fields: int) -> bytearray:
    """A complete batch around already encoded (and, by ``attributes``, already compressed) records.

    The fields are those of :func:`write_header`.
    """
    size = HEADER_SIZE + len(records)
    buffer = bytearray(size)
    buffer[HEADER_SIZE:] = records
    write_header(buffer, size, **fields)
    return buffer


def rebuild(
    header: BatchHeader,
    records: Buffer,
    *,
    attributes: int | None = None,
    count: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """A complete batch that replaces ``header``'s, with other records in it.

    Offsets, leader epoch and the producer's sequence stay: readers and producers still find it by them.
    """
    return build(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        count=header.count if count is None else count,
        base_timestamp=header.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=header.max_timestamp if max_timestamp is None else max_timestamp,
        attributes=header.attributes if attributes is None else attributes,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
