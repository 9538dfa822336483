"""Look-ups by time. The only place in the log that opens batches, one per look-up.

A batch can be intact and yet have no readable records: compressed ones are accepted unopened, and earlier
versions opened none. No reader gets a record out of it, and a look-up continues after it.

A megabyte of compressed records takes seconds to search. A caller that must not wait passes :class:`Opened`:
such a batch is handed out (:class:`Unopened`), searched in a thread, and the look-up is repeated with the
result.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.index_build import NO_TIMESTAMP, timestamp_of
from tidelog.log.segment import Segment
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader, Buffer
from tidelog.protocol.records import payload_of, scan

_logger = logging.getLogger(__name__)

RECORDS_AT_ONCE_MAX = 300  # about a millisecond of reading records

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)"""


class LookupTarget(NamedTuple):
    """Which record of a batch is searched."""

    start_offset: int
    end_offset: int  # exclusive
    timestamp_ms: int | None  # the first that is not older; None: the first of the newest


class LookupResult(NamedTuple):
    """The result of searching one batch."""

    offset: int  # of the record; -1 if there is none
    timestamp: int
    is_readable: bool = True


NOT_THERE = LookupResult(-1, NO_TIMESTAMP)
UNREADABLE = LookupResult(-1, NO_TIMESTAMP, is_readable=False)


class Unopened(Exception):
    """A batch that takes too long to search here. :meth:`look` is safe in any thread."""

    def __init__(self, batch: bytes, header: BatchHeader, wanted: LookupTarget, path: str) -> None:
        super().__init__(path)
        self._batch = batch
        self.header = header
        self.wanted = wanted
        self._path = path

    def look(self) -> LookupResult:
        return look_through(self._batch, self.wanted, self._path)


class Cuttable(Protocol):
    """A log."""

    cuts: int


class Opened:
    """Results of the batches that one look-up has handed out."""

    __slots__ = ("_key", "_seen", "cuts", "log", "nothing_before")

    def __init__(self, log: "Cuttable") -> None:
        self.log = log
        self.cuts = log.cuts  # So far: the results count while there are no more.
        self.nothing_before = 0  # Offset: where the look-up continues.
        self._key: tuple[BatchHeader, LookupTarget] | None = None
        self._seen = NOT_THERE

    def note(self, batch: Unopened, seen: LookupResult) -> None:
        self._key, self._seen = (batch.header, batch.wanted), seen
        if seen.offset < 0 and batch.wanted.timestamp_ms is not None:
            self.nothing_before = batch.header.next_offset

    def find(self, header: BatchHeader, wanted: LookupTarget) -> LookupResult | None:
        return self._seen if self._key == (header, wanted) else None


def first_at_or_after(
    segments: Sequence[Segment],
    timestamp_ms: int,
    start_offset: int,
    end_offset: int,
    log_end_offset: int,
    opened: Opened | None = None,
) -> Found | None:
    """The first record in ``[start_offset, end_offset)`` that is not older than ``timestamp_ms``."""
    if opened is not None:
        start_offset = max(start_offset, opened.nothing_before)
    wanted = LookupTarget(start_offset, end_offset, timestamp_ms)
    for segment, reached in _with_ends(segments, log_end_offset):
        if segment.base_offset >= end_offset:
            return None
        if reached <= start_offset or _largest_in(segment, reached) < timestamp_ms:
            continue
        search_offset = max(start_offset, segment.indexes.time_floor(timestamp_ms))
        for at, header in segment.walk(search_offset, reached):
            if header.base_offset >= end_offset:
                return None
            if timestamp_of(header) < timestamp_ms or header.last_offset < start_offset:
                continue
            seen = _look(segment, at, header, wanted, opened)
            if seen.offset >= 0:
                return seen.timestamp, seen.offset, header.leader_epoch
    return None


def newest(
    segments: Sequence[Segment],
    start_offset: int,
    end_offset: int,
    log_end_offset: int,
    opened: Opened | None = None,
) -> Found | None:
    """The first record that has the largest timestamp of all in ``[start_offset, end_offset)``."""
    best: tuple[int, Segment, int, BatchHeader] | None = None
    for segment, reached in _with_ends(segments, log_end_offset):
        if segment.base_offset >= end_offset:
            break
        if reached <= start_offset or (best is not None and _largest_in(segment, reached) <= best[0]):
            continue
        found = _newest_batch(segment, start_offset, end_offset, reached)
        if found is not None and (best is None or timestamp_of(found[1]) > best[0]):
            best = timestamp_of(found[1]), segment, *found
    if best is None:
        return None
    _, segment, position, header = best
    seen = _look(segment, position, header, LookupTarget(start_offset, end_offset, None), opened)
    if not seen.is_readable:
        return timestamp_of(header), header.base_offset, header.leader_epoch  # The only candidate known.
    return (seen.timestamp, seen.offset, header.leader_epoch) if seen.offset >= 0 else None


def _with_ends(segments: Sequence[Segment], log_end_offset: int) -> Iterator[tuple[Segment, int]]:
    """Each with the exclusive end of its range."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
    yield segments[-1], log_end_offset


def _largest_in(segment: Segment, reached: int) -> int:
    """The largest timestamp of a segment whose range ends at ``reached``. Raises :class:`BrokenChain` if its
    file ends earlier: newer records of other segments are not the answer then.
    """
    segment.require_end(reached)
    return segment.indexes.load_max_timestamp()


def _newest_batch(
    segment: Segment, start_offset: int, end_offset: int, reached: int
) -> tuple[int, BatchHeader] | None:
    """(position, header) of the first batch with the largest timestamp of a segment in the range."""
    if _largest_in(segment, reached) == NO_TIMESTAMP:
        return None
    best: tuple[int, BatchHeader] | None = None
    newest_ms = NO_TIMESTAMP
    for position, header in segment.walk(_search_from(segment, start_offset, end_offset), reached):
        if header.last_offset >= end_offset:
            break
        if header.last_offset >= start_offset and timestamp_of(header) > newest_ms:
            newest_ms, best = timestamp_of(header), (position, header)
            if newest_ms == segment.indexes.max_timestamp:
                break  # There is none larger, and a segment may be long.
    return best


def _search_from(segment: Segment, start_offset: int, end_offset: int) -> int:
    """An offset at or before the first batch with the largest timestamp in the range."""
    timestamp, offset = segment.indexes.load_max_timestamp(), segment.indexes.max_timestamp_offset
    if offset >= end_offset:
        # The segment's largest timestamp is after the end. The newest time index entry before the end exceeds
        # everything before it. All batches from the entry before it on are checked: the newest may be wrong.
        index = segment.indexes.times
        behind = index.first_entry(lambda number: index.entry(number)[1] >= end_offset)
        if not behind:
            return max(start_offset, segment.base_offset)
        timestamp, offset = index.entry(behind - 1)
    if offset < start_offset:
        return start_offset  # Batches before the range do not count.
    return max(start_offset, segment.indexes.time_floor(timestamp))


def _look(
    segment: Segment, position: int, header: BatchHeader, wanted: LookupTarget, opened: Opened | None
) -> LookupResult:
    if opened is not None and (seen := opened.find(header, wanted)) is not None:
        return seen
    batch = segment.file().read_at(position, header.size)
    if opened is not None and (header.codec or header.count > RECORDS_AT_ONCE_MAX):
        raise Unopened(batch, header, wanted, segment.path)
    return look_through(batch, wanted, segment.path)


def look_through(batch: Buffer, wanted: LookupTarget, path: str) -> LookupResult:
    """Raises :class:`CorruptBatch` if the batch is damaged."""
    header = batches.check(batch)
    try:
        return _look_through(batch, header, wanted)
    except CorruptBatch as error:
        if error.code is not ErrorCode.INVALID_RECORD:
            raise  # Damaged since it was written.
        _logger.warning(
            "%s: the batch at offset %d has no readable records: %s", path, header.base_offset, error.message
        )
        return UNREADABLE


def _look_through(batch: Buffer, header: BatchHeader, wanted: LookupTarget) -> LookupResult:
    low, high = max(wanted.start_offset, header.base_offset), min(wanted.end_offset, header.next_offset)
    stamped = header.max_timestamp if header.is_log_append_time else None
    found = NOT_THERE
    for raw in scan(payload_of(batch, header), header.count):
        offset = header.base_offset + raw.offset_delta
        if not low <= offset < high:
            continue
        timestamp = header.base_timestamp + raw.timestamp_delta if stamped is None else stamped
        if wanted.timestamp_ms is None:
            if found.offset < 0 or (timestamp, -offset) > (found.timestamp, -found.offset):
                found = LookupResult(offset, timestamp)
        elif found.offset < 0 and timestamp >= wanted.timestamp_ms:
            found = LookupResult(offset, timestamp)
    return found
