"""From files to a log: what is in the directory, what can be trusted, and where the log ends.

After a clean shutdown only the newest index entry and the headers after it are read. Otherwise every segment
from the recovery point on is read and checked byte by byte; the log ends before the first batch that is torn,
damaged or out of order, and everything after it is removed. Truncated bytes are logged; if a crash cannot be
the reason (:mod:`tidelog.log.damage`), they are recorded as damage first. Producers are restored from the
newest trusted snapshot and the batches after it.
"""

import logging
from typing import NamedTuple

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log import layout, swap
from tidelog.log.damage import DamageMark, Evidence
from tidelog.log.epochs import NO_HISTORY, EpochCache, History
from tidelog.log.files import read_whole
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex
from tidelog.log.index_build import RELATIVE_OFFSET_MAX
from tidelog.log.offset_mark import DenseMark, OffsetMark
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import ProducerStates
from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.log.segment_check import Recovered, recover
from tidelog.log.settings import LogSettings
from tidelog.log.storage import DirectoryEntry, Storage
from tidelog.log.sync import Unsynced

_logger = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """A log as it was found."""

    segments: list[Segment]  # Never empty; the last one is active.
    end_offset: int
    start_offset: int
    epochs: EpochCache
    start_mark: OffsetMark
    clean_mark: OffsetMark
    dense_mark: DenseMark
    snapshots: ProducerSnapshots
    unsynced: list[Unsynced]  # Inactive segments whose bytes may not be on disk yet.
    names_changed: bool  # Whether the directory must be synced.
    created: bool  # Whether the directory itself is new.
    untouched: bool  # Whether every file is as a clean shutdown left it.
    damage: DamageMark


class Opening:
    """Opens one log; :meth:`load` is its only use."""

    def __init__(
        self, storage: Storage, handles: HandleCache, directory: str, config: LogSettings, now_ms: int
    ) -> None:
        self._storage = storage
        self._handles = handles
        self._directory = directory
        self._config = config
        self._segments: list[Segment] = []
        self._epochs = EpochCache()
        self._history = NO_HISTORY
        self._snapshots = ProducerSnapshots(storage, directory, ProducerStates(directory, now_ms))
        self._start_mark = OffsetMark(storage, directory, layout.START_SUFFIX)
        self._clean_mark = OffsetMark(storage, directory, layout.CLEAN_SUFFIX)
        self._dense_mark = DenseMark(storage, directory)
        self._unsynced: list[Unsynced] = []
        self._names_changed = False
        self._untouched = True
        self._damage = DamageMark(storage, directory)
        self._evidence = Evidence()
        self._is_clean = False

    def load(self, *, clean: bool, evidence: Evidence, log_start_offset: int) -> Loaded:
        self._evidence, self._is_clean = evidence, clean
        recovery_point = evidence.recovery_point
        created = not self._storage.exists(self._directory)
        if created:
            self._storage.make_directory(self._directory)
        entries = [] if created else self._storage.list(self._directory)
        if swap.finish_interrupted(self._storage, self._directory, entries):
            entries = self._storage.list(self._directory)
            self._names_changed = True
        self._damage.load()
        self._start_mark.find(entries)
        self._clean_mark.find(entries)
        self._dense_mark.find(entries)
        log_start_offset = self._claimed_start(log_start_offset)
        self._find_segments(entries)
        if evidence.existed and (created or (evidence.written_survives and not self._segments)):
            self._note_damage("its directory was removed or emptied")
        self._snapshots.find(entries)
        unread = None
        if any(entry.name == layout.EPOCHS_FILE for entry in entries):
            unread = self._load_epochs()
        filed = self._epochs.history_unchecked()
        damaged = [segment.base_offset for segment in self._segments if _lacks_aborted(segment)]
        if damaged:
            _logger.warning("%s: the index of aborted transactions is torn or missing", self._directory)
            clean, recovery_point = False, min(recovery_point, damaged[0])
        if unread is not None:
            clean, recovery_point = False, min(recovery_point, unread)
        self._history = self._epochs.history(evidence.recovery_point)
        end_offset = self._end_offset(clean, recovery_point)
        if end_offset < evidence.end_offset_min:
            self._note_damage(f"ends at offset {end_offset}, and reached {evidence.end_offset_min} before")
        if self._segments and self._is_wrong_start(log_start_offset, end_offset):
            _logger.error(
                "%s: ends at %d; the checkpoint's start offset %d is ignored",
                self._directory, end_offset, log_start_offset,
            )  # fmt: skip
            log_start_offset = 0
        if end_offset < log_start_offset or not self._segments:
            self._start_empty(log_start_offset, end_offset)
            end_offset = log_start_offset
        start_offset = max(log_start_offset, self._segments[0].base_offset)
        if self._clean_mark.lower(end_offset):
            # Batches written after the end were never compacted, whatever a crash does next.
            self._storage.sync_directory(self._directory)
        self._mark_dense(end_offset)
        self._epochs.truncate_from(end_offset)
        self._epochs.truncate_before(start_offset)
        if start_offset == end_offset:
            self._keep_last_epoch(filed, end_offset)
        self._snapshots.truncate_to(end_offset)
        self._snapshots.prune(self._segments)
        self._segments[-1].release()  # A thousand idle logs must not hold a thousand open files.
        return Loaded(
            self._segments,
            end_offset,
            start_offset,
            self._epochs,
            self._start_mark,
            self._clean_mark,
            self._dense_mark,
            self._snapshots,
            self._unsynced,
            self._names_changed,
            created,
            self._untouched,
            self._damage,
        )

    def _keep_last_epoch(self, filed: History, end_offset: int) -> None:
        """All records have expired or were deleted, so no batch tells the epoch of the last one. Without it
        the log would compare as older than one that still has the first of them.

        The file may name a later epoch instead, whose records were truncated. That does no harm: its leader
        had everything committed, and wrote from here on.
        """
        if end_offset > 0 and not len(self._epochs):
            self._epochs.assign(filed.epoch_at(end_offset), end_offset)

    def _mark_dense(self, end_offset: int) -> None:
        """What is written from here on has no unmarked gaps."""
        if not self._dense_mark.is_set or self._dense_mark.offset > end_offset:
            self._dense_mark.set(end_offset)
            self._names_changed = True
        for segment in self._segments:
            segment.dense = self._dense_mark

    def _claimed_start(self, checkpointed: int) -> int:
        """The mark is written before the checkpoint, and a power failure may undo it alone. Otherwise it is
        the newer of the two, and cannot be damaged.
        """
        if self._evidence.written_survives and self._start_mark.is_set:
            return self._start_mark.offset
        return max(checkpointed, self._start_mark.offset)

    def _is_wrong_start(self, log_start_offset: int, end_offset: int) -> bool:
        """Whether the log cannot start there: it never starts after its end, and has lost nothing since."""
        is_marked = log_start_offset == self._start_mark.offset
        return self._evidence.written_survives and log_start_offset > end_offset and not is_marked

    def _note_damage(self, reason: str) -> None:
        """Before anything is truncated: the next start would find nothing wrong."""
        _logger.error("%s: the disk lost data: %s", self._directory, reason)
        self._damage.set(reason)

    def _find_segments(self, entries: list[DirectoryEntry]) -> None:
        sizes = {entry.name: entry.size for entry in entries}
        bases = []
        for name in sizes:
            base_offset = layout.base_offset_of(name, layout.LOG_SUFFIX)
            if base_offset is not None:
                bases.append(base_offset)
        for base_offset in sorted(bases):
            path = layout.segment_path(self._directory, base_offset)
            name = path[len(self._directory) + 1 :]
            index_size = sizes.pop(name + layout.INDEX_SUFFIX, None)
            time_index_size = sizes.pop(name + layout.TIME_INDEX_SUFFIX, None)
            aborted_size = sizes.pop(name + layout.ABORTED_SUFFIX, None)
            segment = Segment(
                self._storage, self._handles, path, base_offset,
                size=sizes[name + layout.LOG_SUFFIX], index_size=index_size or 0,
                time_index_size=time_index_size or 0, aborted_size=aborted_size,
                index_bytes_max=self._config.segment_index_bytes,
            )  # fmt: skip
            segment.dense = self._dense_mark
            if index_size is None or time_index_size is None:
                segment.indexes.distrust()
            self._segments.append(segment)
        for name in sizes:  # An index without its log file: left by an interrupted deletion.
            if name.endswith(layout.INDEX_SUFFIXES):
                self._storage.remove(f"{self._directory}/{name}")
                self._names_changed = True

    def _load_epochs(self) -> int | None:
        """From which segment on only recovery can tell the epochs; None if they are known."""
        text = read_whole(self._storage, f"{self._directory}/{layout.EPOCHS_FILE}")
        try:
            self._epochs = EpochCache.decode(text or b"")
        except CorruptBatch as error:
            # Not caused by a crash (the file is replaced atomically), so the history is rebuilt from the
            # whole log.
            _logger.warning("%s in %s: reading it from the batches", error.message, self._directory)
            self._epochs.version = 1
            for segment in self._segments:
                try:
                    segment.learn_epochs(self._epochs)
                except CorruptBatch:  # Recovery truncates a torn write, and learns the epochs from here on.
                    return segment.base_offset
        return None

    def _end_offset(self, clean: bool, recovery_point: int) -> int:
        if not self._segments:
            return 0
        if clean:
            last = self._segments[-1]
            try:
                end_offset = last.read_next_offset()
                if end_offset != (self._evidence.recovery_point or end_offset):
                    raise CorruptBatch(f"ends at {end_offset}, not at {self._evidence.recovery_point}")
                last.activate()
                self._snapshots.rebuild(self._segments, self._segments[0].base_offset, end_offset)
                return end_offset
            except (CorruptBatch, DamagedIndex) as error:
                _logger.warning("%s was not closed cleanly: %s", last.path, error)
                recovery_point = last.base_offset
        return self._recover(recovery_point)

    def _recover(self, recovery_point: int) -> int:
        """Check from the segment with the recovery point on; returns the new end offset."""
        self._untouched = False
        segments = self._segments
        first = self._first_to_check(recovery_point)
        # Epochs that began from here on are read from the batches; the file may have some that were
        # truncated.
        self._epochs.truncate_from(segments[first].base_offset)
        end_offset = segments[first].base_offset
        # A snapshot after the recovery point may belong to batches written after a truncation that the power
        # failure undid.
        self._snapshots.truncate_to(max(end_offset, recovery_point))
        try:
            self._snapshots.rebuild(segments[:first], segments[0].base_offset, end_offset)
        except BrokenChain as error:
            _logger.error("%s: checking all of it: %s", self._directory, error.message)
            return self._recover(0)
        for number in range(first, len(segments)):
            segment = segments[number]
            if number > 0:
                self._snapshots.try_to_write(segment.base_offset)
            last = number == len(segments) - 1
            found = self._check(segment, self._end_offset_max(number), last=last)
            end_offset = found.next_offset
            self._names_changed |= found.names_changed
            if found.cut_bytes:
                _logger.warning(
                    "%s: truncated %d bytes after offset %d: %s",
                    segment.path, found.cut_bytes, found.next_offset, found.reason,
                )  # fmt: skip
            if last:
                break
            if found.cut_bytes or not _follows(segments[number + 1], segment, end_offset):
                if self._evidence.written_survives or end_offset < self._evidence.end_offset_min:
                    self._note_damage(f"a hole between {end_offset} and {segments[number + 1].base_offset}")
                self._drop_after(number, end_offset)
                break
            self._unsynced.append(segment.make_inactive())
        return end_offset

    def _first_to_check(self, recovery_point: int) -> int:
        """Number of the segment that holds the recovery point."""
        found = [n for n, segment in enumerate(self._segments) if segment.base_offset <= recovery_point]
        return max(found, default=0)

    def _end_offset_max(self, number: int) -> int:
        """Exclusive: where a segment's records ended, if known."""
        if number < len(self._segments) - 1:
            return self._segments[number + 1].base_offset if self._evidence.written_survives else LONG_MAX
        return self._evidence.recovery_point if self._is_clean and self._evidence.recovery_point else LONG_MAX

    def _check(self, segment: Segment, end_offset_max: int, *, last: bool) -> Recovered:
        def before_cut(found: Recovered) -> None:
            # Only the last write can be interrupted, and it went to the newest segment.
            torn = found.torn and last
            is_lost = found.next_offset < self._evidence.end_offset_min
            if is_lost or (self._evidence.written_survives and not torn):
                self._note_damage(f"{segment.path} after offset {found.next_offset}: {found.reason}")

        return recover(
            segment, self._config.index_interval_bytes, self._epochs, self._snapshots.states, before_cut,
            preallocated=self._config.preallocate, written_survives=self._evidence.written_survives,
            end_offset_max=end_offset_max, history=self._history,
        )  # fmt: skip

    def _drop_after(self, number: int, end_offset: int) -> None:
        """What follows a truncation is disconnected: keeping it would leave a hole."""
        for segment in reversed(self._segments[number + 1 :]):
            _logger.warning(
                "%s: dropped with %d bytes, the log ends at %d", segment.path, segment.size, end_offset
            )
            segment.release_all()
            segment.remove()
        del self._segments[number + 1 :]
        self._names_changed = True

    def _start_empty(self, base_offset: int, end_offset: int) -> None:
        """A new log, or one that ends before the offset where it should begin: nothing in it is readable."""
        for segment in reversed(self._segments):
            _logger.warning(
                "%s: dropped, the log ends at %d and starts at %d", segment.path, end_offset, base_offset
            )
            segment.release_all()
            segment.remove()
        self._untouched = False
        self._unsynced.clear()
        self._epochs.clear()
        self._snapshots.remove_all()
        self._snapshots.states.clear()
        self._segments[:] = [
            Segment.create(
                self._storage, self._handles, self._directory, base_offset, self._config.segment_index_bytes
            )
        ]
        self._names_changed = True


def _lacks_aborted(segment: Segment) -> bool:
    """Whether the aborted transactions of a segment must be read from its batches. A segment without any has
    no file of them; but if its other indexes are missing, too, then all may have been deleted.
    """
    if segment.indexes.missing and not segment.aborted.exists:
        return segment.has_markers()
    return segment.aborted.is_torn


def _follows(segment: Segment, previous: Segment, end_offset: int) -> bool:
    """Whether ``segment`` continues where ``previous`` ends: its tail may be lost exactly between two
    batches.

    Neither rolling nor compaction leaves a hole between segments. Only a follower whose leader has no records
    for more offsets than a segment can hold starts one further up.
    """
    if segment.base_offset > previous.base_offset + RELATIVE_OFFSET_MAX + 1:
        return end_offset <= segment.base_offset
    return segment.base_offset == end_offset
