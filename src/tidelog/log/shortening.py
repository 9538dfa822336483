"""How a log loses batches: at its end by truncation, at its start by DeleteRecords and retention, in between
by compaction.

Each step is ordered so that a crash leaves no hole, and truncated batches never return after later ones.
"""

import logging
from collections.abc import Sequence

from tidelog.errors import CorruptBatch, OffsetOutOfRange
from tidelog.log import layout, retention
from tidelog.log.appending import Appending
from tidelog.log.base import NO_OFFSET
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex
from tidelog.log.index_build import deferring
from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.log.verification import DamagedSegment
from tidelog.protocol import batch as batches

_logger = logging.getLogger(__name__)


class Shortening(Appending):
    __slots__ = ()

    # -- at the end --------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches ``offset`` or beyond; the log then ends after the last batch left.

        That is at ``offset`` itself, unless it was inside a batch or in a gap of compaction. Raises
        :class:`DamagedSegment` if the rest is damaged: that must be reported before the damaged records are
        dropped. The log accepts no writes until it is truncated before the damage.
        """
        if offset >= self.end_offset:
            return
        if offset < self._row.first_offset:
            self.restart_at(offset)
            return
        self._require_mendable(offset)
        try:
            self._truncate(offset)
            self._durability.mended()
        except OSError as error:
            raise self._fail("truncate", error) from error
        except BrokenChain as error:
            self._segments_changed()
            damage = DamagedSegment(f"{self.directory} is damaged: {error.message}", error.offset)
            self._durability.failure = damage
            raise damage from error
        except CorruptBatch as error:
            # The rest cannot be read to its end: it is checked when the log is reopened.
            raise self._fail("truncate", OSError(error.message)) from error

    def _require_mendable(self, offset: int) -> None:
        """As if it worked, where it only does not because of damage that goes with ``offset``."""
        if isinstance(self.failure, DamagedSegment) and offset <= self.failure.offset and not self.closed:
            return
        self._require_working()

    def end_if_truncated(self, offset: int) -> int:
        """Where the log would end, at most, after ``truncate_to(offset)``. May raise ``StorageError``."""
        if not self._row.first_offset <= offset < self.end_offset:
            return min(offset, self.end_offset)
        try:
            return self._row.segments[self._row.number_of(offset)].place_of_cut(offset)[1]
        except OSError as error:
            raise self._fail("truncate", error) from error
        except BrokenChain:
            return offset  # It will not be cut.

    def whole_to(self, offset: int) -> int:
        """Up to where the segment that holds ``offset`` can be read, at most to there. May raise
        ``StorageError``.
        """
        if not self._row.first_offset <= offset < self.end_offset:
            return offset
        try:
            return self._row.segments[self._row.number_of(offset)].whole_to(offset)
        except OSError as error:
            raise self._fail("read", error) from error

    def _truncate(self, offset: int) -> None:
        number = self._row.number_of(offset)
        segment = self._row.segments[number]
        position, end_offset = segment.place_of_cut(offset)
        # From here on less is durable, whatever the disk does next.
        self._lower_ends(end_offset)
        self._untouched = False
        self._row.drop_newest(number + 1)
        self._durability.names_changed = True
        if not segment.active:
            if self.checkpointed_recovery_point > end_offset:
                # If the dropped segments returned after a power failure, recovery would begin with them and
                # never see the hole before them.
                self._storage.sync_directory(self.directory)
            segment.activate()
        # The end of the last batch, not an offset after it: the next segment may begin there, and recovery
        # treats a hole between segments as lost data.
        self._lower_ends(segment.truncate(position, end_offset))
        self._dense_mark.lower(self.end_offset)  # After the truncation: the removed part may have had gaps.
        self._segments_changed()
        self._snapshots.truncate_to(self.end_offset)
        if self.producers.newest_offset >= self.end_offset:
            segments, first_offset = self._row.segments, self._row.first_offset
            self._snapshots.rebuild(segments, first_offset, self.end_offset, checked=True)
        self._truncate_aborted(number)

    def _truncate_aborted(self, number: int) -> None:
        """Only now: if the index is damaged, the remaining batches tell what was aborted."""
        aborted = self._row.segments[number].aborted
        try:
            aborted.truncate(self.end_offset)
        except DamagedIndex as error:
            self._rebuild_aborted(number, error)

    def _lower_ends(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.cuts += 1
        self.epochs.truncate_from(end_offset)
        self._durability.lower(end_offset)
        if end_offset < self.start_offset:
            self.start_offset = end_offset
        # A mark after the end must not return after a crash. A start mark would hide everything written from
        # here on; a clean mark would make compaction skip it, and remove a tombstone while an older value of
        # its key stays.
        start_lowered = self._start_mark.lower(end_offset)
        if self._clean_mark.lower(end_offset) or start_lowered:
            self._storage.sync_directory(self.directory)

    def restart_at(self, offset: int) -> None:
        """Drop everything and continue at ``offset``: a follower whose leader lacks the next records."""
        self._require_mendable(NO_OFFSET)
        try:
            self._lower_ends(min(offset, self._row.first_offset))
            self.epochs.clear()
            self._snapshots.remove_all()
            self.producers.clear()
            self._row.drop_newest(0)
            self._begin_segment(offset)
            self._start_mark.clear()
            self._dense_mark.set(offset)
        except OSError as error:
            raise self._fail("restart", error) from error
        self._durability.restart()
        self._durability.mended()
        self.start_offset = self.end_offset = offset

    def append_batches(self, data: memoryview, now_ms: int) -> int:
        """As :meth:`Appending.append_batches`; but the first batch of a restarted log may begin before its
        start: a leader whose log start is inside a batch sends that batch whole.
        """
        start = self.start_offset
        if start == self.end_offset and len(data) > batches.HEADER_SIZE:
            first = batches.parse_header(data)
            if first.base_offset < start <= first.last_offset:
                self.restart_at(first.base_offset)
                super().append_batches(data, now_ms)
                self.advance_start(start)
                return self.end_offset
        return super().append_batches(data, now_ms)

    # -- at the start ------------------------------------------------------------------

    def advance_start(self, offset: int) -> None:
        """Nothing before ``offset`` is readable from now on (DeleteRecords); retention removes the segments.

        This survives a killed process, and a power failure once the log is synced. If the disk refuses to
        record it, everything but the recording is done: deletion frees a full disk, so it must not need
        space. See :attr:`kept_start_offset`.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is after the end of {self.directory}, {self.end_offset}")
        if offset > self.start_offset:
            self._raise_start(offset)
            self.start_is_kept = False
            error = self._record_start()
            if error is not None:
                _logger.warning("%s: a crash may lose its start offset %d: %s", self.directory, offset, error)

    @property
    def kept_start_offset(self) -> int:
        """Where a killed process would begin again. It is below ``start_offset`` while the disk refuses to
        record that one: until then a deletion is not permanent.
        """
        if self.start_is_kept:
            return self.start_offset
        return min(self.start_offset, max(self._row.first_offset, self._start_mark.offset))

    def keep_start(self) -> bool:
        """Record the log start offset if that failed before. Returns whether it is recorded."""
        return self.start_is_kept or (not self.closed and self._record_start() is None)

    def _record_start(self) -> OSError | None:
        if self.kept_start_offset < self.start_offset:
            try:
                self._start_mark.set(self.start_offset)
            except OSError as error:
                return error
            self._durability.names_changed = True
        self.start_is_kept = True
        return None

    def _raise_start(self, offset: int) -> None:
        self.start_offset = offset
        self.epochs.truncate_before(offset)

    def enforce_retention(self, now_ms: int, high_watermark: int, *, defers: bool = False) -> list[Segment]:
        """Take expired segments out of the log; the segments taken out.

        Works on a failed log, too: it may have failed because the disk is full. With ``defers``
        it raises :class:`~tidelog.log.index_build.Unindexed` if the age of a large segment is unknown.
        """
        if self.closed:
            return []
        try:
            self.producers.expire(now_ms)
            self.producers.transactions.forget_committed(high_watermark)
            with deferring(self._row.segments if defers else ()):
                count = retention.expired(
                    self._row.segments, self._config, now_ms=now_ms, start_offset=self.start_offset,
                    end_offset=self.end_offset, high_watermark=high_watermark,
                )  # fmt: skip
            if count == len(self._row):
                if self.failure is None:
                    self.roll(now_ms)
                else:
                    count -= 1
            return [self._drop_oldest(now_ms) for _ in range(count)]
        except OSError as error:
            raise self._fail("delete old segments", error) from error

    def take_deleted(self, now_ms: int) -> list[Segment]:
        """Segments that left the log long enough ago, for the caller to remove, in any thread: their files
        are unused. A large file takes the system a while.
        """
        return self._row.take_deleted(now_ms)

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of segments that left the log long enough ago, synchronously."""
        for segment in self.take_deleted(now_ms):
            segment.remove()

    def _drop_oldest(self, now_ms: int) -> Segment:
        self._raise_start(max(self.start_offset, self._row.segments[1].base_offset))
        segment = self._row.drop_oldest(now_ms + self._config.file_delete_delay_ms)
        self._inactive_changed()
        if self._start_mark.offset <= self._row.first_offset:
            self._start_mark.clear()
        return segment

    def _inactive_changed(self) -> None:
        """Segments other than the active one were removed: prepared appends stay valid."""
        self._count_bytes()
        self._limit = (NO_OFFSET, self._active, 0)
        self._durability.names_changed = True
        self._snapshots.prune(self._row)

    # -- in between --------------------------------------------------------------------

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment for cleaned batches, beside the log. Usable in a thread of its own."""
        handles = HandleCache()
        index_bytes = self._config.segment_index_bytes
        return Segment.create(
            self._storage, handles, self.directory, base_offset, index_bytes, layout.CLEANED_SUFFIX
        )

    def mark_clean(self, offset: int) -> None:
        """Everything before ``offset`` was compacted, and that is on disk. Losing the mark costs a pass."""
        try:
            self._clean_mark.set(offset)
        except OSError as error:
            _logger.warning("%s: cannot record that it is clean up to %d: %s", self.directory, offset, error)

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Replace ``old``, a run of inactive segments, by ``new`` (complete and synced).

        The new segment must end exactly where the run did (an empty batch may do that): recovery treats a
        hole between segments as lost data.
        """
        self._require_working()
        try:
            # The names of one directory become durable in order: the mark is there before the first gap.
            self._dense_mark.expect_gaps(self._row.end_of(old[-1], self.end_offset)[0])
            self._row.replace(old, new, now_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self._fail("swap in a compacted segment", error) from error
        new.adopt(self._handles)
        new.dense = self._dense_mark
        self._inactive_changed()
