"""Looking records up by time. The only place in the log that opens batches, one per look-up.

A batch can be whole and yet have no readable records: compressed ones are taken unopened, and earlier
versions opened none. No reader gets a record out of it, and neither does a look-up, which goes on behind it.
"""

import logging
from collections.abc import Sequence

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.scan import headers
from tidelog.log.segment import NO_TIMESTAMP, Segment, timestamp_of
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import decode_batch

_logger = logging.getLogger(__name__)

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)"""


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> Found | None:
    """The first record in ``[start_offset, end_offset)`` that is not older than ``timestamp_ms``."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if segment.load_max_timestamp() < timestamp_ms:
            continue
        search_offset = max(start_offset, segment.time_index.floor(timestamp_ms))
        position, _ = segment.locate(search_offset)
        for at, header in headers(segment.file(), position, segment.size):
            if header.base_offset >= end_offset:
                return None
            if timestamp_of(header) < timestamp_ms or header.last_offset < start_offset:
                continue
            for record_offset, timestamp in _records(segment, at, header):
                if timestamp >= timestamp_ms and start_offset <= record_offset < end_offset:
                    return timestamp, record_offset, header.leader_epoch
    return None


def newest(segments: Sequence[Segment], start_offset: int, end_offset: int) -> Found | None:
    """The first record that has the largest timestamp of all in ``[start_offset, end_offset)``."""
    best: tuple[int, Segment, int] | None = None
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        candidate = _newest_batch(segment, start_offset, end_offset)
        if candidate is not None and (best is None or candidate[0] > best[0]):
            best = (candidate[0], segment, candidate[1])
    if best is None:
        return None
    _, segment, offset = best
    position, _ = segment.locate(offset)
    header = segment.header_at(position)
    if header is None:
        return None
    records = _records(segment, position, header)
    if not records and header.count:
        return timestamp_of(header), header.base_offset, header.leader_epoch  # All that is known.
    readable = [found for found in records if start_offset <= found[0] < end_offset]
    if not readable:
        return None
    record_offset, timestamp = max(readable, key=lambda found: (found[1], -found[0]))
    return timestamp, record_offset, header.leader_epoch


def _newest_batch(segment: Segment, start_offset: int, end_offset: int) -> tuple[int, int] | None:
    """(largest timestamp, last offset of its batch) among the batches of a segment that lie in the range."""
    timestamp = segment.load_max_timestamp()
    if start_offset <= segment.max_timestamp_offset < end_offset:
        return (timestamp, segment.max_timestamp_offset) if timestamp >= 0 else None
    best: tuple[int, int] | None = None
    from_offset = start_offset
    if start_offset <= segment.base_offset:
        # The segment's largest lies behind the end: the newest time index entry before the end beats all up
        # to there, and only the batches since the newest offset index entry can beat that.
        behind = segment.time_index.first_entry(lambda n: segment.time_index.entry(n)[1] >= end_offset)
        if behind:
            best = segment.time_index.entry(behind - 1)
        from_offset = end_offset - 1
    for _, header in headers(segment.file(), segment.index_floor(from_offset), segment.size):
        if header.last_offset >= end_offset:
            break
        timestamp = timestamp_of(header)
        if header.last_offset >= start_offset and timestamp > (best[0] if best else NO_TIMESTAMP):
            best = timestamp, header.last_offset
    return best


def _records(segment: Segment, position: int, header: BatchHeader) -> list[tuple[int, int]]:
    """(offset, timestamp) of each record of one batch; none of one that cannot be read."""
    data = segment.file().read_at(position, header.size)
    try:
        return [
            (record.offset, record.timestamp)
            for record in decode_batch(data)
            if header.base_offset <= record.offset <= header.last_offset
        ]
    except CorruptBatch as error:
        if error.code is not ErrorCode.INVALID_RECORD:
            raise  # Damaged since it was written.
        _logger.warning(
            "%s: the batch at offset %d has no readable records: %s",
            segment.path, header.base_offset, error.message,
        )  # fmt: skip
        return []
