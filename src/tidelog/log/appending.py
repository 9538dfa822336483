"""How batches are appended to a log: one write and a handful of integers each.

Rare cases (first use, rolling, a failed disk, a closed file) are detected by three comparisons with limits,
and handled by the function that writes. If the disk fails a write, the torn bytes are truncated and the log
accepts no writes until it is reopened.
"""

import logging
from typing import NoReturn

from crc32c import crc32c

from tidelog.errors import CorruptBatch
from tidelog.log.base import ALWAYS
from tidelog.log.index_build import RELATIVE_OFFSET_MAX, timestamp_of
from tidelog.log.plain_run import plain_run
from tidelog.log.producers import noted_fields
from tidelog.log.segment import Segment
from tidelog.log.settings import roll_after_ms
from tidelog.log.storage import Buffer
from tidelog.log.syncing import Syncing
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import CONTROL_MASK, BatchHeader

_logger = logging.getLogger(__name__)

_PRODUCER_ID_AT = 43  # First byte of a batch's producer id,
_NEGATIVE = 0x80  # which has this bit set if there is none.


class Appending(Syncing):
    __slots__ = ()

    def append(
        self, batch: memoryview, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Append one checked batch whose base offset is ``end_offset``. Raises StorageError; then nothing of
        it is in the log.
        """
        active = self._active
        position = active.size
        end = position + len(batch)
        if end > self._size_limit or max_timestamp > self._roll_timestamp or last_offset > self._offset_limit:
            self._make_room(len(batch), self.end_offset, last_offset, max_timestamp, now_ms)
            active = self._active
            position = active.size
            end = position + len(batch)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)
        try:
            self._write(position, batch)
        except OSError as error:
            self._cut_torn_write(error)
        active.size = end
        indexes = active.indexes
        if max_timestamp > indexes.max_timestamp:
            indexes.max_timestamp = max_timestamp
            indexes.max_timestamp_offset = last_offset
        if position - indexes.indexed_position > self._index_interval_bytes:
            self._add_index_entry(last_offset, position)
        self._tail_offset = self.end_offset
        self._tail_position = position
        self.end_offset = last_offset + 1
        self.size_bytes += end - position
        if batch[_PRODUCER_ID_AT] < _NEGATIVE:
            noted = noted_fields(batch)
            if noted[1] & CONTROL_MASK:
                self._note_marker(batches.parse_header(batch), batch, now_ms)
            else:
                self.producers.note_fields(noted, now_ms)

    def append_batches(self, data: memoryview, now_ms: int) -> int:
        """Append batches whose offsets are assigned, as a follower does; returns the new end offset.

        A partial batch at the end is left out. Every batch is checked before the first is written; raises
        CorruptBatch if one is damaged or out of order.
        """
        if self._append_plain(data):
            return self.end_offset
        run: list[BatchHeader] = []
        run_start = run_end = 0
        checked = self._checked(data)
        self._expect_gaps(checked)
        for at, header in checked:
            size = header.size
            needs_roll = self._active.size + run_end - run_start + size > self._size_limit
            if (
                needs_roll
                or header.max_timestamp > self._roll_timestamp
                or header.last_offset > self._offset_limit
            ):
                self._append_run(data[run_start:run_end], run, now_ms)
                run, run_start = [], at
                self._make_room(size, header.base_offset, header.last_offset, header.max_timestamp, now_ms)
            run.append(header)
            run_end = at + size
        self._append_run(data[run_start:run_end], run, now_ms)
        return self.end_offset

    def _append_plain(self, data: memoryview) -> bool:
        """Append a plain run (:mod:`~tidelog.log.plain_run`) with one write. False: it is none, or does not
        fit into the active segment, and nothing was done.
        """
        active = self._active
        position, indexes = active.size, active.indexes
        if position + len(data) > self._size_limit:
            return False
        run = plain_run(
            data, self.end_offset, self.epochs.latest, position, indexes.indexed_position,
            self._index_interval_bytes, indexes.max_timestamp, indexes.max_timestamp_offset,
        )  # fmt: skip
        if run is None or run.highest_timestamp > self._roll_timestamp:
            return False
        if run.next_offset - 1 > self._offset_limit:
            return False
        try:
            self._write(position, data)
        except OSError as error:
            self._cut_torn_write(error)
        active.size += len(data)
        self.size_bytes += len(data)
        self._tail_offset, self._tail_position = run.last_base_offset, run.last_position
        self.end_offset = run.next_offset
        for last_offset, at, indexes.max_timestamp, indexes.max_timestamp_offset in run.entries:
            self._add_index_entry(last_offset, at)
        indexes.max_timestamp, indexes.max_timestamp_offset = run.max_timestamp, run.max_timestamp_offset
        return True

    def _checked(self, data: memoryview) -> list[tuple[int, BatchHeader]]:
        found = []
        next_offset = self.end_offset
        epoch = self.epochs.epoch_at(next_offset - 1)
        for at, header in batches.iterate_checked(data):
            if header.base_offset < next_offset or 0 <= header.leader_epoch < epoch:
                raise CorruptBatch(
                    f"offset {header.base_offset} of leader epoch {header.leader_epoch} cannot follow"
                    f" offset {next_offset - 1} of leader epoch {epoch}"
                )
            next_offset, epoch = header.next_offset, max(epoch, header.leader_epoch)
            found.append((at, header))
        return found

    def _expect_gaps(self, found: list[tuple[int, BatchHeader]]) -> None:
        """The leader has compacted its log: the mark is raised before the gaps are written."""
        next_offset = gap_end = self.end_offset
        for _, header in found:
            if header.base_offset > next_offset:
                gap_end = header.base_offset
            next_offset = header.next_offset
        if gap_end > self.end_offset:
            self._require_working()
            try:
                if self._dense_mark.expect_gaps(gap_end):
                    self._durability.names_changed = True
            except OSError as error:
                raise self._fail("note a gap", error) from error

    def _append_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        """Write batches that fit into the active segment with one write."""
        if not run:
            return
        active = self._active
        position = active.size
        try:
            self._write(position, data)
        except OSError as error:
            self._cut_torn_write(error)
        active.size += len(data)
        self.size_bytes += len(data)
        start, indexes = position, active.indexes
        for header in run:
            if header.leader_epoch != self.epochs.latest:
                # An epoch in which this replica led without writing is not part of the leader's history.
                self.epochs.truncate_from(self.end_offset)
                self.epochs.assign(header.leader_epoch, header.base_offset)
            timestamp = timestamp_of(header)
            if timestamp > indexes.max_timestamp:
                indexes.max_timestamp, indexes.max_timestamp_offset = timestamp, header.last_offset
            if position - indexes.indexed_position > self._index_interval_bytes:
                self._add_index_entry(header.last_offset, position)
            self._tail_offset, self._tail_position = header.base_offset, position
            self.end_offset = header.next_offset
            if header.producer_id >= 0:
                if header.is_control:
                    self._note_marker(header, data[position - start :], now_ms)
                else:
                    self.producers.note(header, now_ms)
            position += header.size

    def _note_marker(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        aborted = self.producers.note_marker(header, batch, now_ms)
        if aborted is None:
            return
        try:
            if not self._active.aborted.exists:
                self._durability.names_changed = True
            self._active.aborted.append(aborted)
        except OSError as error:
            # As with the other indexes: this append is valid, the next will be refused.
            self._fail("write an index", error)

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        indexes = self._active.indexes
        try:
            indexes.add_entry(last_offset, position)
        except OSError as error:
            # The batch itself is written: this append is valid, the next will be refused.
            self._fail("write an index", error)
        if indexes.full:
            self._size_limit = ALWAYS

    def _cut_torn_write(self, error: OSError) -> NoReturn:
        """Nothing reads beyond the segment's size, but tools should not find half a batch."""
        try:
            self._active.file().truncate(self._active.size)
        except OSError as second:
            _logger.warning("%s: a torn write stays in the file until recovery: %s", self.directory, second)
        raise self._fail("append", error)

    # -- rolling -----------------------------------------------------------------------

    def _make_room(
        self, size: int, base_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """The slow path of an append: everything but "write after the last batch"."""
        self._require_working()
        config = self._config
        try:
            active = self._prepare_active()
            fits_offset = last_offset - active.base_offset <= RELATIVE_OFFSET_MAX
            if active.size:
                roll_timestamp = self._first_timestamp() + self._roll_after_ms()
                if (
                    active.size + size > config.segment_bytes
                    or max_timestamp > roll_timestamp
                    or active.indexes.full
                    or not fits_offset
                ):
                    self._roll(
                        self.end_offset
                        if last_offset - self.end_offset <= RELATIVE_OFFSET_MAX
                        else base_offset
                    )
            elif not fits_offset:
                self._move_empty_segment(base_offset)
            if not self._active.size:
                self._prepare_active()
                first_timestamp = max_timestamp if max_timestamp >= 0 else now_ms
                roll_timestamp = first_timestamp + self._roll_after_ms()
        except OSError as error:
            raise self._fail("roll", error) from error
        self._size_limit = config.segment_bytes
        self._roll_timestamp = roll_timestamp
        self._offset_limit = self._active.base_offset + RELATIVE_OFFSET_MAX

    def roll(self, now_ms: int) -> None:
        """Begin a new segment; does nothing if the active one is empty."""
        self._require_working()
        if self._active.size:
            try:
                self._prepare_active()
                self._roll(self.end_offset)
            except OSError as error:
                raise self._fail("roll", error) from error

    def _prepare_active(self) -> Segment:
        """Prepare for appending, at the first append and after every change of the active segment."""
        active = self._active
        active.prepare_to_write()
        file = self._open_active()
        self._untouched = False
        if self._config.preallocate and file.size() < self._config.segment_bytes:
            file.reserve(self._config.segment_bytes)
        active.on_closed_file = self._active_closed
        self._write = file.write_at
        return active

    def _active_closed(self) -> None:
        """The file was closed by the handle cache: the next append opens it again."""
        self._write = self._open_and_write

    def _open_and_write(self, position: int, data: Buffer) -> None:
        self._prepare_active()
        self._write(position, data)

    def _roll(self, base_offset: int) -> None:
        durability = self._durability
        if durability.checkpointed_recovery_point >= self.end_offset:
            # After a truncation the recovery point on disk is too high, or exactly at the truncation.
            # Recovery would begin at the new segment and trust this one, so its content and its end must be
            # durable first.
            self._sync_now()
        old = self._active
        self._begin_segment(base_offset)
        durability.unsynced_files.append(old.make_inactive())
        self._keep_producers(self._snapshots.write(base_offset))

    def _keep_producers(self, snapshot: str | None) -> None:
        if snapshot is not None:
            self.sync_with(snapshot)
            self._snapshots.prune(self._row)

    def _begin_segment(self, base_offset: int) -> None:
        index_bytes = self._config.segment_index_bytes
        segment = Segment.create(self._storage, self._handles, self.directory, base_offset, index_bytes)
        segment.dense = self._dense_mark
        self._row.add(segment)
        self._durability.names_changed = True
        self._untouched = False
        self._segments_changed()

    def _move_empty_segment(self, base_offset: int) -> None:
        """The next batch is too far from the empty segment's base offset."""
        empty = self._row.pop()
        self._begin_segment(base_offset)
        empty.release_all()
        empty.remove()

    def _first_timestamp(self) -> int:
        header = self._active.header_at(0)
        return header.max_timestamp if header is not None else 0

    def _roll_after_ms(self) -> int:
        """Logs that were created together should not roll together. Depends only on the name."""
        longest_ms = roll_after_ms(self._config)
        jitter_max = min(self._config.segment_jitter_ms, longest_ms)
        if jitter_max <= 0:
            return longest_ms
        return longest_ms - crc32c(self._active.path.encode()) % (jitter_max + 1)
