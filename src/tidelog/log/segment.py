"""One segment: a file of record batches and its indexes, named by the first offset it may hold.

Owns the files, their growth, search, truncation and recovery. Does not know its neighbours, the readable
range or when to roll: the log does. Files are opened and indexes mapped when first used, and closed when
others need the descriptors.

Every index entry that is used is compared with the header of its batch. A wrong entry says nothing about the
records: the indexes are rebuilt, and only then does a batch that does not fit its neighbours count as
damaged.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log import layout
from tidelog.log.aborted_index import AbortedIndex
from tidelog.log.epochs import EpochCache
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex, OffsetIndex, TimeIndex
from tidelog.log.index_build import (
    AT_ONCE_BYTES_MAX,
    INTERVAL_BYTES,
    NO_TIMESTAMP,
    RELATIVE_OFFSET_MAX,
    IndexBuild,
    Unindexed,
    timestamp_of,
)
from tidelog.log.offset_mark import DenseMark
from tidelog.log.scan import (
    ANY,
    BatchPosition,
    BrokenChain,
    WrongPlace,
    find_batch,
    header_at,
    headers,
)
from tidelog.log.storage import Buffer, File, Region, Storage
from tidelog.log.sync import Unsynced, open_existing
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.types import NO_EPOCH

VERIFIED_PARTS_MAX = 64  # of one segment that are remembered
_NOT_LOADED = -2

_logger = logging.getLogger(__name__)


class Segment:
    __slots__ = (
        "_broken", "_file", "_handles", "_indexes_checked", "_indexes_missing", "_storage", "_suffixes",
        "aborted", "active", "base_offset", "defers", "dense", "index", "indexed_position", "max_timestamp",
        "max_timestamp_offset", "on_closed_file", "path", "size", "time_index", "trusted_from",
        "verified_parts", "verified_to",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, handles: HandleCache, path: str, base_offset: int, *, size: int,
        index_size: int, time_index_size: int, aborted_size: int | None = None, index_bytes_max: int,
        suffix: str = "",
    ) -> None:  # fmt: skip
        self._storage = storage
        self._handles = handles
        self._file: File | None = None
        self.path = path  # Without the suffix of each file.
        # The suffixes after that, see layout. They differ if a rename failed.
        self._suffixes = (suffix,) * len(layout.SEGMENT_SUFFIXES)
        self.base_offset = base_offset
        # From where on the log has no gaps between batches. Shared with it; None if unknown.
        self.dense: DenseMark | None = None
        self.size = size  # Bytes of whole batches; the file may be longer during a write.
        self.trusted_from = size  # Position: everything after it was written by this process.
        self.verified_to = 0  # Position: everything before it was checked.
        # Checked ranges after it, by position, so that hot ranges are checked once.
        self.verified_parts: list[tuple[int, int]] = []
        self.active = False
        self.on_closed_file: Callable[[], None] | None = None  # Tells the writer that its file gave way.
        self.defers = False  # Whether who uses it now waits for no index: see index_build.
        self._indexes_checked = False  # Whether the index files were seen to fit the log file.
        self._indexes_missing = False
        self._broken: BrokenChain | None = None  # Why the indexes do not reach the segment's end.
        self.indexed_position = 0  # Of the batch with the newest index entry.
        self.max_timestamp = _NOT_LOADED  # Largest in the segment; loaded on first use.
        self.max_timestamp_offset = base_offset  # Last offset of the batch that holds it.
        index_path, time_path = (
            self._file_path(layout.INDEX_SUFFIX),
            self._file_path(layout.TIME_INDEX_SUFFIX),
        )
        self.index = OffsetIndex(storage, handles, index_path, base_offset, index_size, index_bytes_max)
        self.time_index = TimeIndex(
            storage, handles, time_path, base_offset, time_index_size, index_bytes_max
        )
        self.aborted = AbortedIndex(storage, handles, self._file_path(layout.ABORTED_SUFFIX), aborted_size)

    @classmethod
    def create(
        cls, storage: Storage, handles: HandleCache, directory: str, base_offset: int, index_bytes_max: int,
        suffix: str = "",
    ) -> "Segment":  # fmt: skip
        """A new, empty, active segment. Its names are not synced yet."""
        path = layout.segment_path(directory, base_offset)
        segment = cls(
            storage, handles, path, base_offset,
            size=0, index_size=0, time_index_size=0, index_bytes_max=index_bytes_max, suffix=suffix,
        )  # fmt: skip
        # The log file first: an index without a log is removed on opening, a log without an index costs a
        # scan.
        for kind in reversed(layout.SEGMENT_SUFFIXES):
            storage.remove(segment._file_path(kind))
            if kind != layout.ABORTED_SUFFIX:
                storage.open(segment._file_path(kind), create=True)
        segment.max_timestamp = NO_TIMESTAMP
        segment._indexes_checked = True
        segment.activate()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self._file_path(layout.LOG_SUFFIX)}, {self.size} bytes)"

    # -- handles -----------------------------------------------------------------------

    def _file_path(self, kind: str) -> str:
        return self.path + kind + self._suffixes[layout.SEGMENT_SUFFIXES.index(kind)]

    @property
    def dense_from(self) -> int:
        """No offset is missing between two batches after it."""
        return self.dense.dense_from if self.dense is not None else LONG_MAX

    @property
    def storage(self) -> Storage:
        return self._storage

    def file(self) -> File:
        """The log file, opened on demand."""
        file = self._file
        if file is None:
            file = self._file = self._storage.open(self._file_path(layout.LOG_SUFFIX))
            self._handles.add(self)
        else:
            self._handles.touch(self)
        return file

    def release(self) -> None:
        """Close the log file; regions that still use it keep it open."""
        self._file = None
        self._handles.discard(self)
        if self.on_closed_file is not None:
            self.on_closed_file()

    def release_all(self) -> None:
        """The segment is out of use."""
        self.on_closed_file = None
        self.release()
        self.index.release()
        self.time_index.release()
        self.aborted.release()

    def region(self) -> Region:
        """All batches of the segment."""
        return Region(self.file(), 0, self.size)

    # -- writing -----------------------------------------------------------------------

    def activate(self) -> None:
        """The segment becomes the active one."""
        self.active = True
        self.index.activate()
        self.time_index.activate()

    def prepare_to_write(self) -> None:
        """Load what an append needs to know. Damage is found by readers."""
        try:
            self.load_max_timestamp()
        except BrokenChain as error:
            _logger.error("%s is damaged; appending continues: %s", self.path, error.message)

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        """Append one batch. (The log's own hot path does the same with fewer calls.)"""
        self.file().write_at(self.size, data)
        self.account(self.size, len(data), last_offset, max_timestamp, index_interval_bytes)

    def account(
        self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Account for a batch at ``position``, the end so far."""
        self._note(position, last_offset, max_timestamp, index_interval_bytes)
        self.size = position + size

    def _note(self, position: int, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > index_interval_bytes:
            self.add_index_entry(last_offset, position)

    def add_index_entry(self, last_offset: int, position: int) -> None:
        self.index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.indexed_position = position

    def resize_indexes(self, bytes_max: int) -> None:
        self.index.resize_limit(bytes_max)
        self.time_index.resize_limit(bytes_max)

    @property
    def index_full(self) -> bool:
        return self.index.full or self.time_index.full

    def make_inactive(self) -> Unsynced:
        """Become inactive: indexes complete and cut to size. Returns what is not synced yet."""
        file = self.file()
        if self.size and self.max_timestamp >= 0:
            # The last entry has the segment's largest timestamp: retention and look-ups need not scan for it.
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        if file.size() != self.size:
            file.truncate(self.size)
        self.index.trim()
        self.time_index.trim()
        self.active = False
        self.on_closed_file = None
        return Unsynced(self._open_all)

    def _open_all(self) -> list[File]:
        return open_existing(self._storage, [self._file_path(kind) for kind in layout.SEGMENT_SUFFIXES])

    def truncate(self, position: int, end_offset: int) -> int:
        """Truncate at a batch boundary; ``end_offset`` is the first offset that is removed. Returns where the
        rest ends. The log handles the index of aborted transactions, which only all segments together can
        rebuild.
        """
        self.file().truncate(position)
        self.size = position
        self.trusted_from = min(self.trusted_from, position)
        self.verified_to = min(self.verified_to, position)
        self.verified_parts = [
            (start, min(end, position)) for start, end in self.verified_parts if start < position
        ]
        if self._broken is not None and self._broken.position >= position:
            self._broken = None
        self.index.truncate(end_offset)
        self.time_index.truncate(end_offset)
        self.max_timestamp = _NOT_LOADED
        self.load_max_timestamp()
        last, self.indexed_position = self.index.last() or (ANY, 0)
        try:
            return self._learn_tail(last)
        except WrongPlace as error:
            self._replace_indexes(str(error))
            return self._learn_tail(ANY)

    def _learn_tail(self, last_indexed: int) -> int:
        """Batches between the newest index entry and the truncation may hold a larger timestamp than any
        entry. Returns where they end.
        """
        position = self.indexed_position if last_indexed != ANY else 0
        next_offset = self.base_offset
        for _, header in headers(
            self.file(), position, self.size, self.base_offset, last_indexed, self.dense_from
        ):
            next_offset = header.next_offset
            timestamp = timestamp_of(header)
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, header.last_offset
        return next_offset

    # -- reading -----------------------------------------------------------------------

    def locate(self, offset: int) -> BatchPosition:
        """The first batch that ends at or after ``offset``; size 0 at the end if none does. Raises
        BrokenChain if headers do not fit together.
        """
        if not self._indexes_checked:
            self.require_indexes()
        last, position = self.index.floor(offset)
        dense_from = self.dense_from
        try:
            place = find_batch(self.file(), position, self.size, offset, self.base_offset, last, dense_from)
        except WrongPlace as error:
            self._replace_indexes(str(error))
            place = find_batch(self.file(), 0, self.size, offset, self.base_offset, ANY, dense_from)
        if place.base_offset > offset and place.size:
            self._check_before(place)
        return place

    def _check_before(self, place: BatchPosition) -> None:
        """Compaction leaves gaps. So does a batch that claims a wrong end."""
        start = place.previous
        if start == place.position or start >= self.trusted_from or place.position <= self.verified_to:
            return
        data = self.file().read_at(start, place.position - start)
        try:
            batches.check(data)
        except CorruptBatch as error:
            raise BrokenChain(error.message, start, batches.parse_prefix(data)[0]) from error

    def place_of_cut(self, offset: int) -> tuple[int, int]:
        """(position, offset) where the segment has to be truncated so that nothing reaches ``offset``. Raises
        BrokenChain if an earlier batch is damaged and would have to be dropped as well.
        """
        try:
            place = self.locate(offset)
        except BrokenChain as error:
            if error.offset < offset:
                raise
            return error.position, offset
        return place.position, min(place.base_offset, offset) if place.size else offset

    def whole_to(self, offset: int) -> int:
        """Up to where it can be read, at most ``offset``."""
        try:
            self.locate(offset)
        except BrokenChain as error:
            return min(error.offset, offset)
        return offset

    def index_floor(self, offset: int) -> int:
        """Position of a batch that is not after the first one that ends at or after ``offset``."""
        self.require_indexes()
        last, position = self.index.floor(offset)
        if last != ANY and not self._begins_at(position, last):
            self._replace_indexes(f"offset {last} is not at position {position}")
            return self.index.floor(offset)[1]
        return position

    def offset_behind(self, position: int) -> int | None:
        """Last offset of a batch at or after ``position`` that has an index entry; None without one."""
        self.require_indexes()
        index = self.index
        for _ in range(2):
            number = index.first_entry(lambda number: index.entry(number)[1] >= position)
            if number == index.count:
                return None
            last, at = index.entry(number)
            if self._begins_at(at, last):
                return last
            self._replace_indexes(f"offset {last} is not at position {at}")
        return None

    def _begins_at(self, position: int, last_offset: int) -> bool:
        header = self.header_at(position)
        return header is not None and header.last_offset == last_offset

    def header_at(self, position: int) -> BatchHeader | None:
        """Header of the batch at ``position``; None at the end."""
        return header_at(self.file(), position, self.size)

    def walk(self, offset: int, end_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from the one with ``offset`` on. Batches not written by this
        process are read and checked, and compared with the next batch. ``end_offset``: exclusive, of the
        segment's records. Raises BrokenChain.
        """
        place = self.locate(offset)
        if not place.size and offset < end_offset <= self.base_offset + RELATIVE_OFFSET_MAX + 1:
            message = f"the segment ends at offset {place.base_offset}, and {end_offset} was expected"
            raise BrokenChain(message, place.previous, min(place.base_offset, offset))
        position, next_offset = place.position, self.base_offset
        held: tuple[int, BatchHeader] | None = None
        for at, header in headers(
            self.file(), position, self.size, place.base_offset, dense_from=self.dense_from
        ):
            if held is not None:
                if header.leader_epoch < NO_EPOCH or 0 <= header.leader_epoch < held[1].leader_epoch:
                    message = f"leader epoch {header.leader_epoch} follows {held[1].leader_epoch}"
                    raise BrokenChain(message, held[0], min(next_offset, held[1].base_offset))
                yield held
            if header.next_offset > end_offset:
                message = f"offset {header.last_offset} where the records end at {end_offset}"
                raise BrokenChain(message, at, min(next_offset, end_offset))
            self._check_batch(at, header, next_offset)
            held, next_offset = (at, header), header.next_offset
        if held is not None:
            yield held

    def sound_headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of the batches from ``position`` on. Batches not written by this process are
        read and checked: a wrong header would name a wrong producer or transaction. Raises BrokenChain.
        """
        # In the middle of a segment the expected offset is unknown: the position was found through its
        # neighbours.
        first = self.header_at(position) if position else None
        next_offset = self.base_offset if first is None else max(first.base_offset, self.base_offset)
        for at, header in headers(self.file(), position, self.size, next_offset, dense_from=self.dense_from):
            self._check_batch(at, header, next_offset)
            next_offset = header.next_offset
            yield at, header

    def _check_batch(self, position: int, header: BatchHeader, next_offset: int) -> None:
        if not self.verified_to <= position < self.trusted_from:
            return
        try:
            batches.check(self.file().read_at(position, header.size))
        except CorruptBatch as error:
            raise BrokenChain(error.message, position, min(next_offset, header.base_offset)) from error

    # -- time --------------------------------------------------------------------------

    def load_max_timestamp(self) -> int:
        """The largest timestamp, -1 if no batch has one."""
        if self.max_timestamp == _NOT_LOADED:
            self.require_indexes()
        if self.max_timestamp == _NOT_LOADED:
            last = self.time_index.last()
            if last is not None and not self._holds(*last):
                self._replace_indexes(f"the largest timestamp {last[0]} is not at offset {last[1]}")
            else:
                self.max_timestamp, self.max_timestamp_offset = last or (NO_TIMESTAMP, self.base_offset)
        if self._broken is not None:
            raise BrokenChain(self._broken.message, self._broken.position, self._broken.offset)
        return self.max_timestamp

    def time_floor(self, timestamp: int) -> int:
        """An offset before which every record is older than ``timestamp``.

        It is that of the entry before the last older one, so that an entry with a wrong offset, of another
        batch with the same timestamp, skips no records.
        """
        self.require_indexes()
        index = self.time_index
        for _ in range(2):
            behind = index.first_entry(lambda number: index.entry(number)[0] >= timestamp)
            if not behind:
                break
            offset = index.entry(behind - 2)[1] if behind > 1 else self.base_offset
            newest = index.entry(behind - 1)
            if offset <= newest[1] and self._holds(*newest):
                return offset
            self._replace_indexes(f"timestamp {newest[0]} is not at offset {newest[1]}")
        return self.base_offset

    def _holds(self, timestamp: int, last_offset: int) -> bool:
        """Whether the batch that ends there has this largest timestamp."""
        if timestamp == NO_TIMESTAMP:
            return True
        place = self.locate(last_offset)
        header = self.header_at(place.position) if place.size else None
        return header is not None and (timestamp_of(header), header.last_offset) == (timestamp, last_offset)

    def age_reference_ms(self, ahead_max_ms: int) -> int:
        """Where retention counts from: the largest timestamp, or the file's own if batches have none.

        If some batches cannot be read, it is the largest timestamp that they can have: a batch is accepted
        if it is at most ``ahead_max_ms`` ahead of the clock, and was written before the file's last change.
        """
        try:
            timestamp = self.load_max_timestamp()
        except BrokenChain:
            return max(self.max_timestamp, self._modified_ms() + ahead_max_ms)
        return timestamp if timestamp >= 0 else self._modified_ms()

    def _modified_ms(self) -> int:
        return self._storage.modified_ms(self._file_path(layout.LOG_SUFFIX))

    # -- opening -----------------------------------------------------------------------

    def check_indexes(self) -> None:
        """Raise :class:`DamagedIndex` if an index cannot belong to this log file."""
        if self._indexes_missing:
            raise DamagedIndex(f"{self.path} lacks an index file")
        if self.size == 0 and (self.index.count or self.time_index.count):
            raise DamagedIndex(f"{self.path} has index entries and no batches")
        self.index.check(self.size)
        self.time_index.check()
        if self.size and not self.time_index.count:
            first = self.header_at(0)
            if first is None or timestamp_of(first) >= 0:
                raise DamagedIndex(f"{self.time_index.path} is empty, and batches have timestamps")
        self._indexes_checked = True

    def distrust_indexes(self) -> None:
        """An index file is missing or wrong: rebuild both when they are needed."""
        self.index.release()
        self.time_index.release()
        self.index.count = self.time_index.count = 0
        self._indexes_missing, self._indexes_checked = True, False
        self.max_timestamp = _NOT_LOADED

    def require_indexes(self) -> None:
        """Check the indexes on first use: opening must not touch every segment."""
        if self._indexes_checked:
            return
        try:
            self.check_indexes()
        except DamagedIndex as error:
            self._replace_indexes(str(error))

    def _replace_indexes(self, reason: str) -> None:
        if self.defers and self.size > AT_ONCE_BYTES_MAX:
            raise Unindexed(self, reason)
        _logger.warning("rebuilding the indexes of %s: %s", self.path, reason)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Build the offset and time index from the batches, as far as these are whole, here and now."""
        build = IndexBuild(self)
        while not build.step():
            pass
        self.take_indexes(build)

    def take_indexes(self, build: IndexBuild) -> None:
        """Put new indexes in place. The segment has been appended to since they were begun, at most."""
        was_active = self.active
        self.start_indexes()
        try:
            self.index.replace(build.offset_entries)
            self.time_index.replace(build.time_entries)
            self.indexed_position = build.indexed_position
            self.max_timestamp, self.max_timestamp_offset = build.max_timestamp, build.max_timestamp_offset
            self._broken = build.broken
            if build.broken is None:
                self._note_behind(build)
                if not was_active:
                    self.make_inactive()
                return
            _logger.error(
                "%s is damaged from offset %d on: %s", self.path, build.broken.offset, build.broken.message
            )
            if not was_active:
                self.index.trim()
                self.time_index.trim()
                self.active = False
        except OSError:
            self._indexes_checked, self.active = False, was_active
            raise

    def _note_behind(self, build: IndexBuild) -> None:
        """What was appended while the indexes were built: this process has checked it."""
        if build.size >= self.size:
            return
        for position, header in headers(self.file(), build.size, self.size, self.base_offset):
            self._note(position, header.last_offset, timestamp_of(header), INTERVAL_BYTES)

    def read_next_offset(self) -> int:
        """Exclusive end offset of a cleanly closed segment: hops from the newest index entry.

        Raises if the file does not end with a whole batch or the indexes do not fit: then it must be
        recovered.
        """
        if self._indexes_missing:
            raise DamagedIndex(f"{self.path} lacks an index file")
        last, self.indexed_position = self.index.last() or (ANY, 0)
        next_offset = self.base_offset
        try:
            for _, header in headers(
                self.file(), self.indexed_position, self.size, self.base_offset, last, self.dense_from
            ):
                next_offset = header.next_offset
        except WrongPlace as error:
            raise DamagedIndex(str(error)) from error
        return next_offset

    def learn_epochs(self, epochs: EpochCache) -> None:
        """Read from the batch headers which epochs began where."""
        for _, header in headers(self.file(), 0, self.size, self.base_offset, dense_from=self.dense_from):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)

    def start_indexes(self) -> None:
        """Rebuild the offset and time index from the first batch on. Leaves the segment active."""
        self.index.reset()
        self.time_index.reset()
        self.indexed_position = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._indexes_checked, self._indexes_missing = True, False
        self._broken = None
        self.activate()

    # -- names -------------------------------------------------------------------------

    def rename(self, suffix: str) -> None:
        """Give all files another suffix. The log file is renamed last: its name decides the state of all."""
        order = layout.SEGMENT_SUFFIXES
        if suffix in (layout.DELETED_SUFFIX, layout.CLEANED_SUFFIX):
            order = order[::-1]  # And first when the segment is removed: an index without a log is ignored.
        self._rename(order, suffix)

    def rename_indexes(self, suffix: str) -> None:
        self._rename(layout.INDEX_SUFFIXES, suffix)

    def _rename(self, kinds: Sequence[str], suffix: str) -> None:
        for kind in kinds:
            source, target = self._file_path(kind), self.path + kind + suffix
            if source == target:
                continue
            if self._has_file(kind):
                self._storage.rename(source, target)
            self._suffixes = tuple(
                suffix if each == kind else old
                for each, old in zip(layout.SEGMENT_SUFFIXES, self._suffixes, strict=True)
            )
            self.index.path = self._file_path(layout.INDEX_SUFFIX)
            self.time_index.path = self._file_path(layout.TIME_INDEX_SUFFIX)
            self.aborted.path = self._file_path(layout.ABORTED_SUFFIX)

    def _has_file(self, kind: str) -> bool:
        if kind == layout.ABORTED_SUFFIX:
            return self.aborted.exists
        # A segment may be removed before its lost indexes were ever needed.
        return (
            kind == layout.LOG_SUFFIX
            or not self._indexes_missing
            or self._storage.exists(self._file_path(kind))
        )

    def verified_from(self, position: int) -> int:
        """How far the batches from ``position`` on were checked; ``position`` itself if unknown."""
        if position < self.verified_to:
            return self.verified_to
        return next((end for start, end in self.verified_parts if start <= position < end), position)

    def note_verified(self, start: int, end: int) -> None:
        """These batches were checked."""
        parts = []
        for part in self.verified_parts:
            if part[1] < start or end < part[0]:
                parts.append(part)
            else:
                start, end = min(start, part[0]), max(end, part[1])
        if start <= self.verified_to:
            self.verified_to = max(self.verified_to, end)
            self.verified_parts = [part for part in parts if part[1] > self.verified_to]
        else:
            self.verified_parts = [*parts, (start, end)][-VERIFIED_PARTS_MAX:]

    def remove(self) -> None:
        for kind in reversed(layout.SEGMENT_SUFFIXES):
            self._storage.remove(self._file_path(kind))

    def adopt(self, handles: HandleCache) -> None:
        """A cleaned segment joins a log: from now on it counts among that log's open files."""
        self.release_all()
        self._handles = self.index._handles = self.time_index._handles = handles
        self.aborted.adopt(handles)
