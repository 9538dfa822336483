"""The offset and the time index of one segment: look-ups, the entries that appends add, and rebuilding.

Every index entry that is used is compared with the header of its batch. A wrong entry says nothing about the
records: the indexes are rebuilt, and only then does a batch that does not fit its neighbours count as
damaged.
"""

import logging
from typing import TYPE_CHECKING

from tidelog.log.index import DamagedIndex, OffsetIndex, TimeIndex
from tidelog.log.index_build import (
    AT_ONCE_BYTES_MAX,
    INTERVAL_BYTES,
    NO_TIMESTAMP,
    IndexBuild,
    Unindexed,
    timestamp_of,
)
from tidelog.log.scan import ANY, BrokenChain, WrongPlace, headers

if TYPE_CHECKING:
    from tidelog.log.segment import Segment

_NOT_LOADED = -2

_logger = logging.getLogger(__name__)


class SegmentIndexes:
    __slots__ = (
        "_broken", "_segment", "checked", "defers", "indexed_position", "max_timestamp",
        "max_timestamp_offset", "missing", "offsets", "times",
    )  # fmt: skip

    def __init__(self, segment: "Segment", offsets: OffsetIndex, times: TimeIndex) -> None:
        self._segment = segment
        self.offsets = offsets
        self.times = times
        self.defers = False  # Whether who uses them now waits for no index: see index_build.
        self.checked = False  # Whether the index files were seen to fit the log file.
        self.missing = False
        self._broken: BrokenChain | None = None  # Why they do not reach the segment's end.
        self.indexed_position = 0  # Of the batch with the newest index entry.
        self.max_timestamp = _NOT_LOADED  # Largest in the segment; loaded on first use.
        self.max_timestamp_offset = segment.base_offset  # Last offset of the batch that holds it.

    # -- files -------------------------------------------------------------------------

    def activate(self) -> None:
        self.offsets.activate()
        self.times.activate()

    def release(self) -> None:
        self.offsets.release()
        self.times.release()

    def resize(self, bytes_max: int) -> None:
        self.offsets.resize_limit(bytes_max)
        self.times.resize_limit(bytes_max)

    @property
    def full(self) -> bool:
        return self.offsets.full or self.times.full

    # -- writing -----------------------------------------------------------------------

    def begin(self) -> None:
        """Of an empty segment."""
        self.indexed_position = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self._segment.base_offset
        self.checked, self.missing = True, False
        self._broken = None

    def restart(self) -> None:
        """Drop all entries: they are made again from the first batch on. Leaves the segment active."""
        self.offsets.reset()
        self.times.reset()
        self.begin()
        self._segment.activate()

    def note(self, position: int, last_offset: int, max_timestamp: int, interval_bytes: int) -> None:
        """There is a batch at ``position``, behind all others."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > interval_bytes:
            self.add_entry(last_offset, position)

    def add_entry(self, last_offset: int, position: int) -> None:
        self.offsets.append(last_offset, position)
        self.times.append(self.max_timestamp, self.max_timestamp_offset)
        self.indexed_position = position

    def complete(self) -> None:
        """The last entry has the segment's largest timestamp: retention and look-ups need not scan for it."""
        if self._segment.size and self.max_timestamp >= 0:
            self.times.append(self.max_timestamp, self.max_timestamp_offset)

    def trim(self) -> None:
        """Cut the files to size."""
        self.offsets.trim()
        self.times.trim()

    def truncate(self, position: int, end_offset: int) -> int:
        """The segment was truncated; ``end_offset`` is the first offset that is removed. Returns where the
        rest ends.
        """
        if self._broken is not None and self._broken.position >= position:
            self._broken = None
        self.offsets.truncate(end_offset)
        self.times.truncate(end_offset)
        self.max_timestamp = _NOT_LOADED
        self.load_max_timestamp()
        last, self.indexed_position = self.offsets.last() or (ANY, 0)
        try:
            return self._learn_tail(last)
        except WrongPlace as error:
            self.replace(str(error))
            return self._learn_tail(ANY)

    def _learn_tail(self, last_indexed: int) -> int:
        """Batches between the newest index entry and the truncation may hold a larger timestamp than any
        entry. Returns where they end.
        """
        segment = self._segment
        position = self.indexed_position if last_indexed != ANY else 0
        next_offset = segment.base_offset
        for _, header in headers(
            segment.file(), position, segment.size, segment.base_offset, last_indexed, segment.dense_from
        ):
            next_offset = header.next_offset
            timestamp = timestamp_of(header)
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, header.last_offset
        return next_offset

    # -- offsets -----------------------------------------------------------------------

    def position_before(self, offset: int) -> int:
        """Position of a batch that is not after the first one that ends at or after ``offset``."""
        self.require()
        last, position = self.offsets.floor(offset)
        if last != ANY and not self._begins_at(position, last):
            self.replace(f"offset {last} is not at position {position}")
            return self.offsets.floor(offset)[1]
        return position

    def offset_behind(self, position: int) -> int | None:
        """Last offset of a batch at or after ``position`` that has an index entry; None without one."""
        self.require()
        index = self.offsets
        for _ in range(2):
            number = index.first_entry(lambda number: index.entry(number)[1] >= position)
            if number == index.count:
                return None
            last, at = index.entry(number)
            if self._begins_at(at, last):
                return last
            self.replace(f"offset {last} is not at position {at}")
        return None

    def _begins_at(self, position: int, last_offset: int) -> bool:
        header = self._segment.header_at(position)
        return header is not None and header.last_offset == last_offset

    # -- time --------------------------------------------------------------------------

    def load_max_timestamp(self) -> int:
        """The largest timestamp, -1 if no batch has one."""
        if self.max_timestamp == _NOT_LOADED:
            self.require()
        if self.max_timestamp == _NOT_LOADED:
            last = self.times.last()
            if last is not None and not self._holds(*last):
                self.replace(f"the largest timestamp {last[0]} is not at offset {last[1]}")
            else:
                self.max_timestamp, self.max_timestamp_offset = last or (
                    NO_TIMESTAMP,
                    self._segment.base_offset,
                )
        if self._broken is not None:
            raise BrokenChain(self._broken.message, self._broken.position, self._broken.offset)
        return self.max_timestamp

    def time_floor(self, timestamp: int) -> int:
        """An offset before which every record is older than ``timestamp``.

        It is that of the entry before the last older one, so that an entry with a wrong offset, of another
        batch with the same timestamp, skips no records.
        """
        self.require()
        index, base_offset = self.times, self._segment.base_offset
        for _ in range(2):
            behind = index.first_entry(lambda number: index.entry(number)[0] >= timestamp)
            if not behind:
                break
            offset = index.entry(behind - 2)[1] if behind > 1 else base_offset
            newest = index.entry(behind - 1)
            if offset <= newest[1] and self._holds(*newest):
                return offset
            self.replace(f"timestamp {newest[0]} is not at offset {newest[1]}")
        return base_offset

    def _holds(self, timestamp: int, last_offset: int) -> bool:
        """Whether the batch that ends there has this largest timestamp."""
        if timestamp == NO_TIMESTAMP:
            return True
        place = self._segment.locate(last_offset)
        header = self._segment.header_at(place.position) if place.size else None
        return header is not None and (timestamp_of(header), header.last_offset) == (timestamp, last_offset)

    # -- trust -------------------------------------------------------------------------

    def require_files(self) -> None:
        """Raise :class:`DamagedIndex` if one is known to be missing."""
        if self.missing:
            raise DamagedIndex(f"{self._segment.path} lacks an index file")

    def check(self) -> None:
        """Raise :class:`DamagedIndex` if an index cannot belong to this log file."""
        self.require_files()
        segment = self._segment
        if segment.size == 0 and (self.offsets.count or self.times.count):
            raise DamagedIndex(f"{segment.path} has index entries and no batches")
        self.offsets.check(segment.size)
        self.times.check()
        if segment.size and not self.times.count:
            first = segment.header_at(0)
            if first is None or timestamp_of(first) >= 0:
                raise DamagedIndex(f"{self.times.path} is empty, and batches have timestamps")
        self.checked = True

    def distrust(self) -> None:
        """An index file is missing or wrong: rebuild both when they are needed."""
        self.release()
        self.offsets.count = self.times.count = 0
        self.missing, self.checked = True, False
        self.max_timestamp = _NOT_LOADED

    def require(self) -> None:
        """Check the indexes on first use: opening must not touch every segment."""
        if self.checked:
            return
        try:
            self.check()
        except DamagedIndex as error:
            self.replace(str(error))

    # -- rebuilding --------------------------------------------------------------------

    def replace(self, reason: str) -> None:
        """Rebuild both from the batches, as far as these are intact: here and now, or raise
        :class:`Unindexed` where that takes too long.
        """
        if self.defers and self._segment.size > AT_ONCE_BYTES_MAX:
            raise Unindexed(self._segment, reason)
        _logger.warning("rebuilding the indexes of %s: %s", self._segment.path, reason)
        build = IndexBuild(self._segment)
        while not build.step():
            pass
        self.take(build)

    def take(self, build: IndexBuild) -> None:
        """Put new indexes in place. The segment has been appended to since they were begun, at most."""
        segment = self._segment
        was_active = segment.active
        self.restart()
        try:
            self.offsets.replace(build.offset_entries)
            self.times.replace(build.time_entries)
            self.indexed_position = build.indexed_position
            self.max_timestamp, self.max_timestamp_offset = build.max_timestamp, build.max_timestamp_offset
            self._broken = build.broken
            if build.broken is None:
                self._note_behind(build)
                if not was_active:
                    segment.make_inactive()
                return
            _logger.error(
                "%s is damaged from offset %d on: %s", segment.path, build.broken.offset, build.broken.message
            )
            if not was_active:
                self.trim()
                segment.active = False
        except OSError:
            self.checked, segment.active = False, was_active
            raise

    def _note_behind(self, build: IndexBuild) -> None:
        """What was appended while the indexes were built: this process has checked it."""
        segment = self._segment
        if build.size >= segment.size:
            return
        for position, header in headers(segment.file(), build.size, segment.size, segment.base_offset):
            self.note(position, header.last_offset, timestamp_of(header), INTERVAL_BYTES)
