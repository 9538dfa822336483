"""Looking records up by time. The only place in the log that opens batches, one per look-up.

A batch can be whole and yet have no readable records: compressed ones are taken unopened, and earlier
versions opened none. No reader gets a record out of it, and neither does a look-up, which goes on behind it.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.segment import NO_TIMESTAMP, Segment, timestamp_of
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import decode_batch

_logger = logging.getLogger(__name__)

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)"""


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int, log_end_offset: int
) -> Found | None:
    """The first record in ``[start_offset, end_offset)`` that is not older than ``timestamp_ms``."""
    for segment, reached in _with_ends(segments, log_end_offset):
        if segment.base_offset >= end_offset:
            return None
        if reached <= start_offset or segment.load_max_timestamp() < timestamp_ms:
            continue
        search_offset = max(start_offset, segment.time_floor(timestamp_ms))
        for at, header in segment.walk(search_offset, reached):
            if header.base_offset >= end_offset:
                return None
            if timestamp_of(header) < timestamp_ms or header.last_offset < start_offset:
                continue
            for record_offset, timestamp in _records(segment, at, header):
                if timestamp >= timestamp_ms and start_offset <= record_offset < end_offset:
                    return timestamp, record_offset, header.leader_epoch
    return None


def newest(
    segments: Sequence[Segment], start_offset: int, end_offset: int, log_end_offset: int
) -> Found | None:
    """The first record that has the largest timestamp of all in ``[start_offset, end_offset)``."""
    best: tuple[int, Segment, int, BatchHeader] | None = None
    for segment, reached in _with_ends(segments, log_end_offset):
        if segment.base_offset >= end_offset:
            break
        if reached <= start_offset or (best is not None and segment.load_max_timestamp() <= best[0]):
            continue
        found = _newest_batch(segment, start_offset, end_offset, reached)
        if found is not None and (best is None or timestamp_of(found[1]) > best[0]):
            best = timestamp_of(found[1]), segment, *found
    if best is None:
        return None
    _, segment, position, header = best
    records = _records(segment, position, header)
    if not records and header.count:
        return timestamp_of(header), header.base_offset, header.leader_epoch  # All that is known.
    readable = [found for found in records if start_offset <= found[0] < end_offset]
    if not readable:
        return None
    record_offset, timestamp = max(readable, key=lambda found: (found[1], -found[0]))
    return timestamp, record_offset, header.leader_epoch


def _with_ends(segments: Sequence[Segment], log_end_offset: int) -> Iterator[tuple[Segment, int]]:
    """Each with the exclusive end of what it can hold."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
    yield segments[-1], log_end_offset


def _newest_batch(
    segment: Segment, start_offset: int, end_offset: int, reached: int
) -> tuple[int, BatchHeader] | None:
    """(position, header) of the first batch with the largest timestamp among those of a segment that lie in
    the range."""
    if segment.load_max_timestamp() == NO_TIMESTAMP:
        return None
    best: tuple[int, BatchHeader] | None = None
    newest_ms = NO_TIMESTAMP
    for position, header in segment.walk(_search_from(segment, start_offset, end_offset), reached):
        if header.last_offset >= end_offset:
            break
        if header.last_offset >= start_offset and timestamp_of(header) > newest_ms:
            newest_ms, best = timestamp_of(header), (position, header)
    return best


def _search_from(segment: Segment, start_offset: int, end_offset: int) -> int:
    """An offset at or before the first batch with the largest timestamp in the range."""
    if start_offset > segment.base_offset:
        return start_offset
    timestamp = segment.load_max_timestamp()
    if segment.max_timestamp_offset < end_offset:
        return segment.time_floor(timestamp)
    # The segment's largest lies behind the end. The newest time index entry before the end beats all up to
    # there. From the one before it on all are looked at: the newest may be wrong.
    index = segment.time_index
    behind = index.first_entry(lambda number: index.entry(number)[1] >= end_offset)
    return segment.time_floor(index.entry(behind - 1)[0]) if behind else segment.base_offset


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
