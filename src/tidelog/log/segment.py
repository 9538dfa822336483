"""One segment: a file of record batches and its indexes, named by the first offset it may hold.

Owns the files, their growth, search, truncation and recovery. Does not know its neighbours, the
readable range or when to roll: that is the log's business. Files are opened and indexes mapped when first
used, and given back when others need them more.
"""

import logging
from collections.abc import Callable, Sequence

from tidelog.errors import CorruptBatch
from tidelog.log import layout
from tidelog.log.aborted_index import AbortedIndex
from tidelog.log.epochs import EpochCache
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex, OffsetIndex, TimeIndex
from tidelog.log.scan import find_batch, headers
from tidelog.log.storage import Buffer, File, Region, Storage
from tidelog.log.sync import Unsynced, open_existing
from tidelog.protocol.batch import BatchHeader

VERIFIED_PARTS_MAX = 64  # of one segment that are remembered
RELATIVE_OFFSET_MAX = (1 << 31) - 1  # Index entries hold offsets relative to the base offset in 4 bytes.
NO_TIMESTAMP = -1
_NOT_LOADED = -2
_REBUILD_INTERVAL_BYTES = 4096

_logger = logging.getLogger(__name__)


def timestamp_of(header: BatchHeader) -> int:
    """The largest timestamp of a batch's records. One that compaction left empty still has a timestamp in its
    header, but nobody finds a record by it."""
    return header.max_timestamp if header.count else NO_TIMESTAMP


class Segment:
    __slots__ = (
        "_file", "_handles", "_indexes_checked", "_indexes_missing", "_storage", "_suffixes", "aborted",
        "active", "base_offset", "index", "indexed_position", "max_timestamp", "max_timestamp_offset",
        "on_closed_file", "path", "size", "time_index", "trusted_from", "verified_parts",
        "verified_to",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, handles: HandleCache, path: str, base_offset: int, *, size: int,
        index_size: int, time_index_size: int, aborted_size: int | None = None, index_bytes_max: int,
        suffix: str = "",
    ) -> None:  # fmt: skip
        self._storage = storage
        self._handles = handles
        self._file: File | None = None
        self.path = path  # Without the suffix that tells the files apart.
        # Behind that: what each file is in the middle of, see layout. They differ where a renaming failed.
        self._suffixes = (suffix,) * len(layout.SEGMENT_SUFFIXES)
        self.base_offset = base_offset
        self.size = size  # Bytes of whole batches; the file may be longer while a write is under way.
        self.trusted_from = size  # Position: what lies behind was written by this process.
        self.verified_to = 0  # Position: what lies before was read back and found whole.
        # The same of ranges that lie behind it, by position: what is read again and again is checked once.
        self.verified_parts: list[tuple[int, int]] = []
        self.active = False
        self.on_closed_file: Callable[[], None] | None = None  # Tells the writer that its file gave way.
        self._indexes_checked = False  # Whether the index files were seen to fit the log file.
        self._indexes_missing = False
        self.indexed_position = 0  # Of the batch with the newest index entry.
        self.max_timestamp = _NOT_LOADED  # Largest in the segment; loaded when first asked for.
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

    def file(self) -> File:
        """The log file, opened when needed."""
        file = self._file
        if file is None:
            file = self._file = self._storage.open(self._file_path(layout.LOG_SUFFIX))
            self._handles.add(self)
        else:
            self._handles.touch(self)
        return file

    def release(self) -> None:
        """Let go of the log file; regions that still use it keep it open."""
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
        """The segment is the one being written."""
        self.active = True
        self.index.activate()
        self.time_index.activate()
        self.load_max_timestamp()

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        """Append one batch. (The log's own hot path does the same with fewer calls.)"""
        self.file().write_at(self.size, data)
        self.account(self.size, len(data), last_offset, max_timestamp, index_interval_bytes)

    def account(
        self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Take note of a batch that lies at ``position``, the end so far."""
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

    def seal(self) -> Unsynced:
        """Become inactive: indexes complete and cut to size. Returns what is not synced yet."""
        file = self.file()
        if self.size and self.max_timestamp >= 0:
            # The last entry tells the segment's largest timestamp: retention and look-ups need not scan for
            # it.
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
        """Cut at a batch boundary; ``end_offset`` is the first offset that goes. Where what is left ends."""
        self.file().truncate(position)
        self.size = position
        self.trusted_from = min(self.trusted_from, position)
        self.verified_to = min(self.verified_to, position)
        self.verified_parts = [
            (start, min(end, position)) for start, end in self.verified_parts if start < position
        ]
        self.index.truncate(end_offset)
        self.time_index.truncate(end_offset)
        self.aborted.truncate(end_offset)
        last = self.index.last()
        self.indexed_position = last[1] if last else 0
        self.max_timestamp = _NOT_LOADED
        self.load_max_timestamp()
        next_offset = self.base_offset
        # What is left between the newest index entry and the cut may hold a larger timestamp than any entry.
        for _, header in headers(self.file(), self.indexed_position, position):
            next_offset = header.next_offset
            timestamp = timestamp_of(header)
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, header.last_offset
        return next_offset

    # -- reading -----------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, int]:
        """(position, size) of the first batch that ends at or behind ``offset``; (end, 0) when none does."""
        if not self._indexes_checked:
            self.require_indexes()
        return find_batch(self.file(), self.index.floor(offset), self.size, offset)

    def index_floor(self, offset: int) -> int:
        """A position not behind the first batch that ends at or behind ``offset``."""
        self.require_indexes()
        return self.index.floor(offset)

    def header_at(self, position: int) -> BatchHeader | None:
        """Header of the batch at ``position``; None at the end."""
        for _, header in headers(self.file(), position, self.size):
            return header
        return None

    def load_max_timestamp(self) -> int:
        """The largest timestamp, -1 when no batch has one."""
        if self.max_timestamp == _NOT_LOADED:
            self.require_indexes()
            last = self.time_index.last()
            self.max_timestamp, self.max_timestamp_offset = last or (NO_TIMESTAMP, self.base_offset)
        return self.max_timestamp

    def age_reference_ms(self) -> int:
        """Where retention counts from: the largest timestamp, or the file's own where batches have none."""
        timestamp = self.load_max_timestamp()
        if timestamp >= 0:
            return timestamp
        return self._storage.modified_ms(self._file_path(layout.LOG_SUFFIX))

    # -- opening -----------------------------------------------------------------------

    def check_indexes(self) -> None:
        """Raise :class:`DamagedIndex` when an index cannot belong to this log file."""
        if self._indexes_missing:
            raise DamagedIndex(f"{self.path} lacks an index file")
        if self.size == 0 and (self.index.count or self.time_index.count):
            raise DamagedIndex(f"{self.path} has index entries and no batches")
        self.index.check(self.size)
        self.time_index.check()
        self._indexes_checked = True

    def distrust_indexes(self) -> None:
        """An index file is missing: build both anew when they are needed."""
        self.index.count = self.time_index.count = 0
        self._indexes_missing = True

    def require_indexes(self) -> None:
        """Look at the indexes when they are first needed: opening must not touch every segment."""
        if self._indexes_checked:
            return
        try:
            self.check_indexes()
        except DamagedIndex as error:
            _logger.warning("rebuilding the indexes of %s: %s", self.path, error)
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Build the offset and time index of an inactive segment from its batch headers."""
        self.start_indexes()
        for position, header in headers(self.file(), 0, self.size):
            self._note(position, header.last_offset, timestamp_of(header), _REBUILD_INTERVAL_BYTES)
        self.seal()

    def read_next_offset(self) -> int:
        """Exclusive end offset of a segment that was closed in good order: hops from the newest index entry.

        Raises when the file does not end with a whole batch or the indexes do not fit: then it must be
        recovered.
        """
        self.check_indexes()
        last = self.index.last()
        self.indexed_position = last[1] if last else 0
        next_offset, end = self.base_offset, self.indexed_position
        for position, header in headers(self.file(), self.indexed_position, self.size):
            next_offset, end = header.next_offset, position + header.size
        if end != self.size:
            raise CorruptBatch(f"{self.path} ends inside a batch")
        return next_offset

    def learn_epochs(self, epochs: EpochCache) -> None:
        """Read from the batch headers which epochs began where."""
        for _, header in headers(self.file(), 0, self.size):
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)

    def start_indexes(self) -> None:
        """Build the offset and time index anew, from the first batch on. Leaves the segment active."""
        self.index.reset()
        self.time_index.reset()
        self.indexed_position = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._indexes_checked, self._indexes_missing = True, False
        self.activate()

    # -- names -------------------------------------------------------------------------

    def rename(self, suffix: str) -> None:
        """Give all files another suffix. The log file goes last: its name decides what they all are."""
        order = layout.SEGMENT_SUFFIXES
        if suffix in (layout.DELETED_SUFFIX, layout.CLEANED_SUFFIX):
            order = order[::-1]  # And first when the segment goes: an index without a log is nothing.
        self._rename(order, suffix)

    def rename_indexes(self, suffix: str) -> None:
        self._rename(layout.INDEX_SUFFIXES, suffix)

    def _rename(self, kinds: Sequence[str], suffix: str) -> None:
        for kind in kinds:
            source, target = self._file_path(kind), self.path + kind + suffix
            if source == target:
                continue
            if kind != layout.ABORTED_SUFFIX or self.aborted.exists:
                self._storage.rename(source, target)
            self._suffixes = tuple(
                suffix if each == kind else old
                for each, old in zip(layout.SEGMENT_SUFFIXES, self._suffixes, strict=True)
            )
            self.index.path = self._file_path(layout.INDEX_SUFFIX)
            self.time_index.path = self._file_path(layout.TIME_INDEX_SUFFIX)
            self.aborted.path = self._file_path(layout.ABORTED_SUFFIX)

    def verified_from(self, position: int) -> int:
        """How far what begins there was found whole; ``position`` itself where nothing is known of it."""
        if position < self.verified_to:
            return self.verified_to
        return next((end for start, end in self.verified_parts if start <= position < end), position)

    def note_verified(self, start: int, end: int) -> None:
        """Whole batches were read back."""
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
