"""The snapshot files of one log: the state of its producers at some offsets.

Owns which snapshots exist, which of them are trusted, and how the state is rebuilt from one of them and the
batches after it. A snapshot is written where a segment begins and when the log is closed; it is named by the
first offset it does not cover.

Losing a snapshot costs a longer scan of batch headers, and producers whose records are all deleted; a torn
one has a CRC that does not match. One that cannot be read is treated as torn. A snapshot must not outlive the
batches it describes, after a truncation or a crash. So those after the log end, and after a crash those after
the recovery point, are removed, and their names are gone from the disk before anything is written there.
"""

import errno
import logging
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from tidelog.errors import CorruptBatch
from tidelog.log import layout, producer_format
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.files import read_whole, write_beside
from tidelog.log.producers import NO_OFFSET, ProducerStates
from tidelog.log.scan import headers
from tidelog.log.segment import Segment
from tidelog.log.storage import DirectoryEntry, Storage

_logger = logging.getLogger(__name__)

# Errors of this process, not of the file: it can be read later.
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class ProducerSnapshots:
    __slots__ = ("_directory", "_offsets", "_storage", "states")

    def __init__(self, storage: Storage, directory: str, states: ProducerStates) -> None:
        self._storage = storage
        self._directory = directory
        self._offsets: list[int] = []  # Rising. Every existing file, readable or not.
        self.states = states

    def find(self, entries: Iterable[DirectoryEntry]) -> None:
        """Read from a listing of the directory which snapshots exist."""
        # A directory of such a name holds no state, and could not be removed like a file.
        names = (entry.name for entry in entries if not entry.is_directory)
        found = (layout.base_offset_of(name, layout.SNAPSHOT_SUFFIX) for name in names)
        self._offsets = sorted(offset for offset in found if offset is not None)

    @property
    def offsets(self) -> Sequence[int]:
        return tuple(self._offsets)

    @property
    def newest(self) -> int:
        """The offset in the newest one's name; -1 if there is none."""
        return self._offsets[-1] if self._offsets else NO_OFFSET

    def _path(self, offset: int) -> str:
        return _path(self._directory, offset)

    # -- writing -----------------------------------------------------------------------

    def write(self, offset: int) -> str | None:
        """Write the state of everything before ``offset``; returns the path if one was written."""
        if offset <= self.newest:
            return None  # Nothing was written since, or the log was truncated exactly there.
        self._offsets.append(offset)
        path = self._path(offset)
        try:
            write_beside(self._storage, path, producer_format.encode(self.states))
        except IsADirectoryError as error:
            self._offsets.pop()
            _logger.warning("%s: no producer snapshot at offset %d: %s", self._directory, offset, error)
            return None
        return path

    def try_to_write(self, offset: int) -> str | None:
        """The same, but a full disk is not an error."""
        try:
            return self.write(offset)
        except OSError as error:
            _logger.warning("%s: no producer snapshot at offset %d: %s", self._directory, offset, error)
            return None

    def truncate_to(self, end_offset: int) -> None:
        """The log ends at ``end_offset``: snapshots beyond must never return."""
        if self.newest > end_offset:
            self._remove_behind(end_offset)
            self._storage.sync_directory(self._directory)

    def remove_all(self) -> None:
        """The log restarts, in files whose names come after this change and so cannot outlive it."""
        self._remove_behind(NO_OFFSET)

    def _remove_behind(self, end_offset: int) -> None:
        while self.newest > end_offset:
            self._storage.remove(self._path(self._offsets[-1]))
            self._offsets.pop()

    def prune(self, segments: Iterable[Segment]) -> None:
        """Remove all but the newest and those at a segment boundary: the others are never used."""
        wanted = {segment.base_offset for segment in segments}
        wanted.add(self.newest)
        for offset in [offset for offset in self._offsets if offset not in wanted]:
            try:
                self._storage.remove(self._path(offset))
            except OSError as error:
                _logger.warning("%s: cannot remove an old snapshot: %s", self._directory, error)
                return
            self._offsets.remove(offset)

    # -- reading -----------------------------------------------------------------------

    def rebuild(
        self, segments: Sequence[Segment], first_offset: int, end_offset: int, *, checked: bool = False
    ) -> None:
        """Set the state to that of everything before ``end_offset``, where ``segments`` end: from the newest
        snapshot and the batches after it. ``first_offset`` is where the log's first segment begins: older
        snapshots are superseded by deleted batches. ``checked``: read the batches completely, where opening a
        cleanly closed log hops over them.
        """
        offset = self._load(first_offset, end_offset)
        if offset >= end_offset:
            return
        for number, segment in enumerate(segments):
            last = number == len(segments) - 1
            if last or segments[number + 1].base_offset > offset:
                self._learn(segment, offset, checked=checked)

    def _load(self, first_offset: int, end_offset: int) -> int:
        """Load the newest readable snapshot; returns the offset from which the batches are read."""
        self.states.clear()
        for offset in reversed(self._offsets[: bisect_right(self._offsets, end_offset)]):
            if offset < first_offset:
                break
            try:
                snapshot = _read(self._storage, self._directory, offset)
            except CorruptBatch as error:
                # It would prevent a new one of the same name.
                _logger.warning("%s: ignored the snapshot at %d: %s", self._directory, offset, error.message)
                self._storage.remove(self._path(offset))
                self._offsets.remove(offset)
                continue
            self.states.restore(*snapshot, offset)
            return offset
        return first_offset

    def _learn(self, segment: Segment, offset: int, *, checked: bool) -> None:
        position = segment.indexes.position_before(offset) if offset > segment.base_offset else 0
        states = self.states
        hops = headers(segment.file(), position, segment.size, segment.base_offset)
        for at, header in segment.sound_headers(position) if checked else hops:
            if header.producer_id < 0 or header.base_offset < offset:
                continue
            if header.is_control:
                # The segment's index already lists the aborted transactions.
                states.note_marker(header, segment.file().read_at(at, header.size), states.clock_ms)
            else:
                states.note(header, states.clock_ms)

    def aborted_in(
        self, segments: Sequence[Segment], number: int, first_offset: int
    ) -> list[AbortedTransaction]:
        """The aborted transactions whose marker is in one of the log's segments, from the batches."""
        known = ProducerSnapshots(
            self._storage, self._directory, ProducerStates(self._directory, self.states.clock_ms)
        )
        known._offsets = self._offsets[:]
        segment = segments[number]
        known.rebuild(segments[:number], first_offset, segment.base_offset, checked=True)
        found = []
        for at, header in segment.sound_headers():
            if header.producer_id < 0:
                continue
            if header.is_control:
                marker = segment.file().read_at(at, header.size)
                aborted = known.states.note_marker(header, marker, known.states.clock_ms)
                if aborted is not None:
                    found.append(aborted)
            else:
                known.states.note(header, known.states.clock_ms)
        return found


def open_in_snapshot(storage: Storage, directory: str, offset: int) -> Collection[int]:
    """The producer ids with an open transaction in the snapshot at ``offset``. For any thread: none if the
    snapshot was removed, or is torn, because then no state is rebuilt from it any more.
    """
    try:
        return _read(storage, directory, offset).transactions.open.keys()
    except CorruptBatch:
        return ()


def _read(storage: Storage, directory: str, offset: int) -> producer_format.Snapshot:
    """Raises :class:`CorruptBatch` if there is none, or none that can be read: torn by a power failure, or
    something else under its name. A partition must not be offline for what the log can tell.
    """
    try:
        data = read_whole(storage, _path(directory, offset))
    except OSError as error:
        if error.errno in _SCARCE:
            raise
        raise CorruptBatch(str(error)) from error
    return producer_format.decode(data or b"")


def _path(directory: str, offset: int) -> str:
    return layout.segment_path(directory, offset) + layout.SNAPSHOT_SUFFIX
