"""A fast path for followers: a run of batches that all belong to the log's latest epoch, leave no gaps and
have no producer id. Under load a follower gets a hundred small ones in one response.

They are checked in one pass, with the checks that every batch gets, and described together, so that the log
updates its fields once. Taken one by one, each batch costs several times more CPU. Anything else is left to
:meth:`~tidelog.log.appending.Appending.append_batches`, which goes batch by batch.
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
    highest_timestamp: int  # of the run
    max_timestamp: int  # of the segment, the run included
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
    """Check all batches in ``data``, which would be written at ``position`` of a segment. None if the data is
    not such a run, or may be damaged; the caller then checks it batch by batch.
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
