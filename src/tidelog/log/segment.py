"""One segment: a file of record batches and its indexes, named by the first offset it may hold.

Owns the files, their growth, search and truncation. Does not know its neighbours, the readable range or when
to roll: the log does. Files are opened and indexes mapped when first used, and closed when others need the
descriptors.

======================================== =====================================================================
part                                     owns
======================================== =====================================================================
:mod:`tidelog.log.segment_indexes`       entries by offset and by time: look-ups, trust, rebuilding
:mod:`tidelog.log.verified_ranges`       which bytes were checked
:mod:`tidelog.log.aborted_index`         aborted transactions
:mod:`tidelog.log.segment_check`         recovery: every byte is checked
======================================== =====================================================================
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
from tidelog.log.index_build import RELATIVE_OFFSET_MAX
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
from tidelog.log.segment_indexes import SegmentIndexes
from tidelog.log.storage import Buffer, File, Region, Storage
from tidelog.log.sync import Unsynced, open_existing
from tidelog.log.verified_ranges import VerifiedRanges
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.types import NO_EPOCH

_logger = logging.getLogger(__name__)


class Segment:
    __slots__ = (
        "_ends_whole", "_file", "_handles", "_storage", "_suffixes", "aborted", "active", "base_offset",
        "dense", "indexes", "on_closed_file", "path", "size", "trusted_from", "verified",
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
        self.verified = VerifiedRanges()
        self._ends_whole = False  # Whether it was seen to reach the segment after it.
        self.active = False
        self.on_closed_file: Callable[[], None] | None = None  # Tells the writer that its file gave way.
        index_path, time_path = (
            self._file_path(layout.INDEX_SUFFIX),
            self._file_path(layout.TIME_INDEX_SUFFIX),
        )
        offsets = OffsetIndex(storage, handles, index_path, base_offset, index_size, index_bytes_max)
        times = TimeIndex(storage, handles, time_path, base_offset, time_index_size, index_bytes_max)
        self.indexes = SegmentIndexes(self, offsets, times)
        aborted_path = self._file_path(layout.ABORTED_SUFFIX)
        self.aborted = AbortedIndex(storage, handles, aborted_path, base_offset, aborted_size)

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
        segment.indexes.begin()
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
        self.indexes.release()
        self.aborted.release()

    def region(self) -> Region:
        """All batches of the segment."""
        return Region(self.file(), 0, self.size)

    # -- writing -----------------------------------------------------------------------

    def activate(self) -> None:
        """The segment becomes the active one."""
        self.active = True
        self.indexes.activate()

    def prepare_to_write(self) -> None:
        """Load what an append needs to know. Damage is found by readers."""
        try:
            self.indexes.load_max_timestamp()
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
        self.indexes.note(position, last_offset, max_timestamp, index_interval_bytes)
        self.size = position + size

    def make_inactive(self) -> Unsynced:
        """Become inactive: indexes complete and cut to size. Returns what is not synced yet."""
        file = self.file()
        self.indexes.complete()
        if file.size() != self.size:
            file.truncate(self.size)
        self.indexes.trim()
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
        self._ends_whole = False
        self.trusted_from = min(self.trusted_from, position)
        self.verified.truncate(position)
        return self.indexes.truncate(position, end_offset)

    # -- reading -----------------------------------------------------------------------

    def locate(self, offset: int) -> BatchPosition:
        """The first batch that ends at or after ``offset``; size 0 at the end if none does. Raises
        BrokenChain if headers do not fit together.
        """
        indexes = self.indexes
        if not indexes.checked:
            indexes.require()
        last, position = indexes.offsets.floor(offset)
        dense_from = self.dense_from
        try:
            place = find_batch(self.file(), position, self.size, offset, self.base_offset, last, dense_from)
        except WrongPlace as error:
            indexes.replace(str(error))
            place = find_batch(self.file(), 0, self.size, offset, self.base_offset, ANY, dense_from)
        if place.base_offset > offset and place.size:
            self._check_before(place)
        return place

    def _check_before(self, place: BatchPosition) -> None:
        """Compaction leaves gaps. So does a batch that claims a wrong end."""
        start = place.previous
        if start == place.position or start >= self.trusted_from or place.position <= self.verified.end:
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

    def require_end(self, end_offset: int) -> None:
        """Raise BrokenChain if the file of this inactive segment ends before ``end_offset``, where the next
        one begins. It is looked at once: opening touches only the newest segment.
        """
        if self._ends_whole or self.active or end_offset <= self.dense_from:
            return
        place = self.locate(end_offset - 1)
        if not place.size and end_offset <= self.base_offset + RELATIVE_OFFSET_MAX + 1:
            message = f"the segment ends at offset {place.base_offset}, and {end_offset} was expected"
            raise BrokenChain(message, place.previous, place.base_offset)
        self._ends_whole = True

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

    def has_markers(self) -> bool:
        """Whether transactions ended here, by hops over all headers. In doubt they did: the marker of what
        was read may be behind damage. Where there are no transactions, readers find what is damaged, and all
        that is intact behind it stays.
        """
        is_transactional = False
        try:
            for _, header in headers(self.file(), 0, self.size, self.base_offset, dense_from=self.dense_from):
                if header.is_control:
                    return True
                is_transactional = is_transactional or header.is_transactional
        except BrokenChain:
            return is_transactional
        return False

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
        if not self.verified.end <= position < self.trusted_from:
            return
        try:
            batches.check(self.file().read_at(position, header.size))
        except CorruptBatch as error:
            raise BrokenChain(error.message, position, min(next_offset, header.base_offset)) from error

    # -- time --------------------------------------------------------------------------

    def age_reference_ms(self, ahead_max_ms: int) -> int:
        """Where retention counts from: the largest timestamp, or the file's own if batches have none.

        If some batches cannot be read, it is the largest timestamp that they can have: a batch is accepted
        if it is at most ``ahead_max_ms`` ahead of the clock, and was written before the file's last change.
        """
        try:
            timestamp = self.indexes.load_max_timestamp()
        except BrokenChain:
            return max(self.indexes.max_timestamp, self._modified_ms() + ahead_max_ms)
        return timestamp if timestamp >= 0 else self._modified_ms()

    def _modified_ms(self) -> int:
        return self._storage.modified_ms(self._file_path(layout.LOG_SUFFIX))

    # -- opening -----------------------------------------------------------------------

    def read_next_offset(self) -> int:
        """Exclusive end offset of a cleanly closed segment: hops from the newest index entry.

        Raises if the file does not end with a whole batch or the indexes do not fit: then it must be
        recovered.
        """
        indexes = self.indexes
        indexes.require_files()
        last, indexes.indexed_position = indexes.offsets.last() or (ANY, 0)
        next_offset = self.base_offset
        try:
            for _, header in headers(
                self.file(), indexes.indexed_position, self.size, self.base_offset, last, self.dense_from
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
            self.indexes.offsets.path = self._file_path(layout.INDEX_SUFFIX)
            self.indexes.times.path = self._file_path(layout.TIME_INDEX_SUFFIX)
            self.aborted.path = self._file_path(layout.ABORTED_SUFFIX)

    def _has_file(self, kind: str) -> bool:
        if kind == layout.ABORTED_SUFFIX:
            return self.aborted.exists
        # A segment may be removed before its lost indexes were ever needed.
        return (
            kind == layout.LOG_SUFFIX
            or not self.indexes.missing
            or self._storage.exists(self._file_path(kind))
        )

    def remove(self) -> None:
        for kind in reversed(layout.SEGMENT_SUFFIXES):
            self._storage.remove(self._file_path(kind))

    def adopt(self, handles: HandleCache) -> None:
        """A cleaned segment joins a log: from now on it counts among that log's open files."""
        self.release_all()
        self._handles = self.indexes.offsets._handles = self.indexes.times._handles = handles
        self.aborted.adopt(handles)
