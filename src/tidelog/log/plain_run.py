"""The usual case of what a follower appends: many small batches, one after another, of the newest epoch and
of producers without an id. They are checked in one pass, with the same checks as any other batch, and
described together. What each of them would cost alone is several times more.
"""

from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.protocol.batch import CRC_FROM, HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC

# Base offset, length, leader epoch, magic, CRC, last offset delta, largest timestamp, producer id, count.
_unpack = Struct(">qiibI2xi8xqq6xi").unpack_from
_LEAST_LENGTH = HEADER_SIZE - LENGTH_PREFIX_SIZE


class IndexEntry(NamedTuple):
    last_offset: int
    position: int
    max_timestamp: int  # of the segment up to and with the batch
    max_timestamp_offset: int


class PlainRun(NamedTuple):
    next_offset: int
    last_base_offset: int
    last_position: int
    highest_timestamp: int  # of the batches; the next two are those of the segment
    max_timestamp: int
    max_timestamp_offset: int
    entries: list[IndexEntry]


def plain_run(
    data: memoryview,
    next_offset: int,
    epoch: int,
    position: int,
    indexed_position: int,
    interval_bytes: int,
    max_timestamp: int,
    max_timestamp_offset: int,
) -> PlainRun | None:
    """Check all batches in ``data``, which would be written at ``position`` of a segment. None if one of them
    is not plain, or may be damaged: nothing is known then.
    """
    at, end = 0, len(data)
    base_offset, highest_timestamp = next_offset, -1
    entries: list[IndexEntry] = []
    start = 0
    while end - at >= HEADER_SIZE:
        start = at
        base_offset, length, batch_epoch, magic, crc, delta, timestamp, producer_id, count = _unpack(data, at)
        if base_offset != next_offset or batch_epoch != epoch or producer_id >= 0:
            return None
        if magic != MAGIC or length < _LEAST_LENGTH or not 0 < count <= delta + 1:
            return None
        at += length + LENGTH_PREFIX_SIZE
        if at > end or crc32c(data[start + CRC_FROM : at]) != crc:
            return None
        next_offset += delta + 1
        if timestamp > highest_timestamp:
            highest_timestamp = timestamp
            if timestamp > max_timestamp:
                max_timestamp, max_timestamp_offset = timestamp, next_offset - 1
        if position + start - indexed_position > interval_bytes:
            indexed_position = position + start
            entries.append(IndexEntry(next_offset - 1, indexed_position, max_timestamp, max_timestamp_offset))
    if at != end or not end:
        return None
    return PlainRun(
        next_offset, base_offset, position + start, highest_timestamp, max_timestamp, max_timestamp_offset,
        entries,
    )  # fmt: skip
