"""One replica's log: an ordered row of segments, the newest of which is written.

Owns what is readable (``start_offset`` to ``end_offset``), when a segment is full, what a failing disk means,
and what is durable. Knows nothing of who replicates it, what is committed, or what time it is: offsets,
epochs and the clock come in as arguments. Used from one thread, except for :meth:`SyncTicket.run`.

**Appending** is one write and a handful of integers. Everything rare (first use, rolling, a failed disk)
hides behind three comparisons with limits that are set so that they trip.

**Reading** finds the segment, bisects its index and hops over a few headers, wherever in the log it is; no
data is copied, the caller gets the place in the file.

**Failing.** When the disk refuses a write, the torn bytes are cut off and the log takes no more writes until
it is opened again; reads go on. After a failed sync nothing may be called durable any more, so that fails the
log, too.
"""

import logging
from collections.abc import Sequence
from typing import NoReturn

from crc32c import crc32c

from tidelog.errors import CorruptBatch, OffsetOutOfRange, StorageError
from tidelog.invariant import invariant
from tidelog.log import layout, lookup, retention
from tidelog.log.durability import Durability
from tidelog.log.handles import HandleCache
from tidelog.log.opening import Loaded, Opening
from tidelog.log.producers import ProducerStates
from tidelog.log.row import SegmentRow
from tidelog.log.segment import RELATIVE_OFFSET_MAX, Segment, timestamp_of
from tidelog.log.settings import LogSettings, roll_after_ms
from tidelog.log.storage import EMPTY_REGION, Buffer, File, Region, Storage
from tidelog.log.sync import SyncTicket, unsynced_file
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader

_logger = logging.getLogger(__name__)

_ALWAYS = -1  # As a limit: every append takes the slow path.
_NO_OFFSET = -1
_PRODUCER_ID_AT = 43  # First byte of a batch's producer id,
_NEGATIVE = 0x80  # which has this bit where there is none.


class Log:
    __slots__ = (
        "_active", "_config", "_durability", "_flush_messages", "_flush_ms", "_handles",
        "_index_interval_bytes", "_limit", "_offset_limit", "_roll_timestamp", "_row", "_size_limit",
        "_snapshots", "_start_mark", "_storage", "_tail_offset", "_tail_position", "_untouched", "_write",
        "closed", "directory", "end_offset", "epochs", "producers", "size_bytes", "start_offset",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, handles: HandleCache, directory: str, config: LogSettings, loaded: Loaded,
        durability: Durability,
    ) -> None:  # fmt: skip
        self._storage = storage
        self._handles = handles
        self._durability = durability
        self.directory = directory
        self.epochs = loaded.epochs
        self._start_mark = loaded.start_mark
        self._snapshots = loaded.snapshots
        self.producers: ProducerStates = loaded.snapshots.states
        self.start_offset = loaded.start_offset  # First readable.
        self.end_offset = loaded.end_offset  # Exclusive: the next to assign.
        self.closed = False
        self._untouched = loaded.untouched  # Whether all files are as the last process left them.
        self._row = SegmentRow(loaded.segments)
        self._segments_changed()
        self.config = config

    @classmethod
    def open(
        cls, storage: Storage, directory: str, config: LogSettings, *, clean: bool, recovery_point: int = 0,
        log_start_offset: int = 0, now_ms: int, handles: HandleCache | None = None,
    ) -> "Log":  # fmt: skip
        """Open the log in ``directory``, or begin one there. ``clean``: it was closed, nothing is checked."""
        if handles is None:
            handles = HandleCache()
        try:
            loaded = Opening(storage, handles, directory, config, now_ms).load(
                clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset
            )
        except OSError as error:
            raise StorageError(f"cannot open the log in {directory}: {error}") from error
        if clean:
            recovery_point = loaded.end_offset
        durability = Durability(storage, directory, loaded.end_offset, recovery_point, now_ms)
        durability.waiting = loaded.unsynced
        durability.names_changed = loaded.names_changed
        durability.parent_changed = loaded.created
        return cls(storage, handles, directory, config, loaded, durability)

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first; the last one is active."""
        return self._row.segments

    @property
    def failure(self) -> StorageError | None:
        """Why the log takes no more writes."""
        return self._durability.failure

    @property
    def synced_end_offset(self) -> int:
        """Exclusive: everything below survives a power failure."""
        return self._durability.synced_end_offset

    @property
    def recovery_point(self) -> int:
        """Where a check would have to begin after a crash; what the data directory checkpoints."""
        return self._durability.recovery_point

    @property
    def checkpointed_recovery_point(self) -> int:
        """The recovery point of this log that the data directory has on disk."""
        return self._durability.checkpointed_recovery_point

    @checkpointed_recovery_point.setter
    def checkpointed_recovery_point(self, offset: int) -> None:
        self._durability.checkpointed_recovery_point = offset

    @property
    def config(self) -> LogSettings:
        return self._config

    @config.setter
    def config(self, config: LogSettings) -> None:
        self._config = config
        self._index_interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self._active.resize_indexes(config.segment_index_bytes)
        self._size_limit = _ALWAYS  # The next append works the limits out.

    # -- appending ---------------------------------------------------------------------

    def append(
        self, batch: memoryview, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Append one checked batch whose base offset is ``end_offset``. Raises StorageError; then nothing of
        it is in the log."""
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
        if max_timestamp > active.max_timestamp:
            active.max_timestamp = max_timestamp
            active.max_timestamp_offset = last_offset
        if position - active.indexed_position > self._index_interval_bytes:
            self._add_index_entry(last_offset, position)
        self._tail_offset = self.end_offset
        self._tail_position = position
        self.end_offset = last_offset + 1
        self.size_bytes += end - position
        if batch[_PRODUCER_ID_AT] < _NEGATIVE:
            self.producers.note(batches.parse_header(batch), now_ms)

    def append_batches(self, data: memoryview, now_ms: int) -> int:
        """Append batches whose offsets are assigned, as a follower does; the new end offset.

        A partial batch at the end is left out. Every batch is checked before the first is written; raises
        CorruptBatch when one is damaged or out of order.
        """
        run: list[BatchHeader] = []
        run_start = run_end = 0
        for at, header in self._checked(data):
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

    def _checked(self, data: memoryview) -> list[tuple[int, BatchHeader]]:
        found = []
        next_offset = self.end_offset
        epoch = self.epochs.epoch_at(next_offset - 1)
        for at, _ in batches.iterate(data):
            header = batches.check(data, at)
            if header.base_offset < next_offset or 0 <= header.leader_epoch < epoch:
                raise CorruptBatch(
                    f"offset {header.base_offset} of leader epoch {header.leader_epoch} cannot follow"
                    f" offset {next_offset - 1} of leader epoch {epoch}"
                )
            next_offset, epoch = header.next_offset, max(epoch, header.leader_epoch)
            found.append((at, header))
        return found

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
        for header in run:
            if header.leader_epoch != self.epochs.latest:
                # An epoch in which this replica led without writing is no part of the leader's history.
                self.epochs.truncate_from(self.end_offset)
                self.epochs.assign(header.leader_epoch, header.base_offset)
            timestamp = timestamp_of(header)
            if timestamp > active.max_timestamp:
                active.max_timestamp, active.max_timestamp_offset = timestamp, header.last_offset
            if position - active.indexed_position > self._index_interval_bytes:
                self._add_index_entry(header.last_offset, position)
            self._tail_offset, self._tail_position = header.base_offset, position
            self.end_offset = header.next_offset
            position += header.size
            if header.producer_id >= 0:
                self.producers.note(header, now_ms)

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        active = self._active
        try:
            active.add_index_entry(last_offset, position)
        except OSError as error:
            # The batch itself is whole and written: this append holds, the next will be refused.
            self._fail("write an index", error)
        if active.index_full:
            self._size_limit = _ALWAYS

    def _cut_torn_write(self, error: OSError) -> NoReturn:
        """Nobody reads behind the segment's size, but who looks at the file should not find half a batch."""
        try:
            self._active.file().truncate(self._active.size)
        except OSError as second:
            _logger.warning("%s: the torn write stays until recovery: %s", self.directory, second)
        raise self._fail("append", error)

    def _fail(self, action: str, error: OSError) -> StorageError:
        self._size_limit = _ALWAYS
        return self._durability.fail(action, error)

    def _require_open(self) -> None:
        if self.closed:
            raise StorageError(f"{self.directory} is closed")  # Its partition was deleted a moment ago.
        if self.failure is not None:
            raise StorageError(self.failure.message)

    def _require_working(self) -> None:
        self._require_open()
        if not self._active.active:
            raise StorageError(f"{self.directory} is closing")

    # -- rolling -----------------------------------------------------------------------

    def _make_room(
        self, size: int, base_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """The slow path of an append: everything that is not "write behind the last batch"."""
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
                    or active.index_full
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
        """Begin a new segment; nothing happens when the active one is empty."""
        self._require_working()
        if self._active.size:
            try:
                self._prepare_active()
                self._roll(self.end_offset)
            except OSError as error:
                raise self._fail("roll", error) from error

    def _prepare_active(self) -> Segment:
        """Open what appending needs, at the first append and after every change of the active segment."""
        active = self._active
        file = self._open_active()
        self._untouched = False
        if self._config.preallocate and file.size() < self._config.segment_bytes:
            file.reserve(self._config.segment_bytes)
        active.on_closed_file = self._active_closed
        self._write = file.write_at
        return active

    def _open_active(self) -> File:
        try:
            return self._active.file()
        except OSError as error:
            # Nothing is lost: what is too many open files now need not be too many with the next append.
            raise StorageError(f"cannot open the newest segment of {self.directory}: {error}") from error

    def _active_closed(self) -> None:
        """The file gave way to others: the next append opens it again."""
        self._write = self._open_and_write

    def _open_and_write(self, position: int, data: Buffer) -> None:
        self._prepare_active()
        self._write(position, data)

    def _roll(self, base_offset: int) -> None:
        durability = self._durability
        if durability.checkpointed_recovery_point > self.end_offset:
            # After a truncation the recovery point on disk is too high. Recovery would begin at the new
            # segment and trust this one, so it must be durable first.
            self._sync_now()
        old = self._active
        self._begin_segment(base_offset)
        durability.waiting.append(old.seal())
        self._keep_producers(self._snapshots.write(base_offset))

    def _keep_producers(self, snapshot: str | None) -> None:
        if snapshot is not None:
            self.sync_with(snapshot)
            self._snapshots.prune(self._row)

    def _begin_segment(self, base_offset: int) -> None:
        index_bytes = self._config.segment_index_bytes
        self._row.add(Segment.create(self._storage, self._handles, self.directory, base_offset, index_bytes))
        self._durability.names_changed = True
        self._untouched = False
        self._segments_changed()

    def _move_empty_segment(self, base_offset: int) -> None:
        """The next batch is too far up for the empty segment's base offset."""
        empty = self._row.pop()
        self._begin_segment(base_offset)
        empty.release_all()
        empty.remove()

    def _segments_changed(self) -> None:
        """Forget everything that was worked out for the segments as they were."""
        self._active = self._row.active
        self.size_bytes = self._row.size_bytes
        self._tail_offset = self._tail_position = _NO_OFFSET
        self._limit = (_NO_OFFSET, self._active, 0)
        self._write = _not_prepared
        self._size_limit = self._roll_timestamp = self._offset_limit = _ALWAYS

    def _first_timestamp(self) -> int:
        header = self._active.header_at(0)
        return header.max_timestamp if header is not None else 0

    def _roll_after_ms(self) -> int:
        """Logs that were created together should not all roll together. Depends on nothing but the name."""
        longest_ms = roll_after_ms(self._config)
        jitter_max = min(self._config.segment_jitter_ms, longest_ms)
        if jitter_max <= 0:
            return longest_ms
        return longest_ms - crc32c(self._active.path.encode()) % (jitter_max + 1)

    # -- reading -----------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Region:
        """Where the batches from the one that holds ``offset`` on lie, up to ``max_bytes`` and before
        ``end_offset``, in one segment. The last batch may be cut by ``max_bytes``, the first one is not when
        ``at_least_one_batch`` asks so. Empty when nothing is there; raises OffsetOutOfRange.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.directory}: {self.start_offset} to {self.end_offset}"
            )
        if offset >= end_offset or offset == self.end_offset:
            return EMPTY_REGION
        try:
            return self._region(offset, max_bytes, end_offset, at_least_one_batch)
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error

    def _region(self, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool) -> Region:
        if offset == self._tail_offset:
            segment, position = self._active, self._tail_position
            size = segment.size - position
        else:
            segment, position, size = self._row.locate(offset)
        available = self._end_position(segment, end_offset) - position
        if available <= 0:
            return EMPTY_REGION
        if available > max_bytes:
            available = max(max_bytes, size) if at_least_one_batch else max_bytes
        return Region(segment.file(), position, available)

    def _end_position(self, segment: Segment, end_offset: int) -> int:
        """Behind the last batch of ``segment`` that lies wholly before ``end_offset``."""
        if end_offset >= self.end_offset:
            return segment.size
        if end_offset == self._tail_offset and segment is self._active:
            return self._tail_position
        known_offset, known_segment, known_position = self._limit
        if known_offset == end_offset and known_segment is segment:
            return known_position
        position, _ = segment.locate(end_offset)
        self._limit = (end_offset, segment, position)
        return position

    def find_timestamp(self, timestamp_ms: int, end_offset: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record before ``end_offset`` that is not older."""
        try:
            return lookup.first_at_or_after(self._row.segments, timestamp_ms, self.start_offset, end_offset)
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error

    def find_max_timestamp(self, end_offset: int) -> tuple[int, int, int] | None:
        """The same of the first record that has the largest timestamp of all before ``end_offset``."""
        try:
            return lookup.newest(self._row.segments, self.start_offset, end_offset)
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error

    # -- shortening --------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches ``offset`` or beyond; the log then ends behind the last batch left.

        That is at ``offset`` itself, unless it was inside a batch or where compaction left no record.
        """
        if offset >= self.end_offset:
            return
        if offset < self._row.first_offset:
            self.restart_at(offset)
            return
        self._require_working()
        try:
            self._truncate(offset)
        except OSError as error:
            raise self._fail("truncate", error) from error

    def _truncate(self, offset: int) -> None:
        number = self._row.number_of(offset)
        segment = self._row.segments[number]
        position, size = segment.locate(offset)
        header = segment.header_at(position) if size else None
        end_offset = min(offset, header.base_offset) if header is not None else offset
        # What is durable is less from here on, whatever the disk does next.
        self._lower_ends(end_offset)
        self._untouched = False
        self._row.drop_newest(number + 1)
        self._durability.names_changed = True
        if not segment.active:
            if self.checkpointed_recovery_point > end_offset:
                # Should the dropped segments come back after a power failure, recovery would begin with
                # them and never see the hole before them.
                self._storage.sync_directory(self.directory)
            segment.activate()
        # The end of the last batch, not some offset behind it: the next segment may begin there, and recovery
        # takes a hole between segments for lost data.
        self._lower_ends(segment.truncate(position, end_offset))
        self._segments_changed()
        self._snapshots.truncate_to(self.end_offset)
        if self.producers.newest_offset >= self.end_offset:
            self._snapshots.rebuild(self._row.segments, self._row.first_offset, self.end_offset)

    def _lower_ends(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.epochs.truncate_from(end_offset)
        self._durability.lower(end_offset)
        if end_offset < self.start_offset:
            self.start_offset = end_offset
            if self._start_mark.is_set:
                # Behind the end it would hide all that is written from here on: it must not come back.
                self._start_mark.set(end_offset)
                self._storage.sync_directory(self.directory)

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at ``offset``: a follower whose leader no longer has what comes next."""
        self._require_working()
        try:
            self._lower_ends(min(offset, self._row.first_offset))
            self.epochs.clear()
            self._snapshots.remove_all()
            self.producers.clear()
            self._row.drop_newest(0)
            self._begin_segment(offset)
            self._start_mark.clear()
        except OSError as error:
            raise self._fail("restart", error) from error
        self._durability.restart(offset)
        self.start_offset = self.end_offset = offset

    def advance_start(self, offset: int) -> None:
        """Nothing before ``offset`` is readable any more (DeleteRecords); retention removes the segments.

        A killed process does not forget it, and a power failure not once the log is synced.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is behind the end of {self.directory}, {self.end_offset}"
            )
        if offset > self.start_offset:
            self._raise_start(offset)
            try:
                self._start_mark.set(offset)
                self._durability.names_changed = True
            except OSError as error:
                # Deleting is how a full disk gets room again: it must not need some.
                _logger.warning("%s: a crash may forget its start %d: %s", self.directory, offset, error)

    def _raise_start(self, offset: int) -> None:
        self.start_offset = offset
        self.epochs.truncate_before(offset)

    def enforce_retention(self, now_ms: int, high_watermark: int) -> list[Segment]:
        """Take expired segments out of the log and remove files whose delay is over; the segments taken out.

        Works on a failed log, too: it may have failed because the disk is full.
        """
        if self.closed:
            return []
        try:
            self.remove_deleted(now_ms)
            self.producers.expire(now_ms)
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

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of segments that left the log long enough ago."""
        self._row.remove_deleted(now_ms)

    def _drop_oldest(self, now_ms: int) -> Segment:
        self._raise_start(max(self.start_offset, self._row.segments[1].base_offset))
        segment = self._row.drop_oldest(now_ms + self._config.file_delete_delay_ms)
        self._inactive_changed()
        if self._start_mark.offset <= self._row.first_offset:
            self._start_mark.clear()
        return segment

    def _inactive_changed(self) -> None:
        """Segments other than the active one left: what appending has prepared stays."""
        self.size_bytes = self._row.size_bytes
        self._limit = (_NO_OFFSET, self._active, 0)
        self._durability.names_changed = True
        self._snapshots.prune(self._row)

    # -- compaction --------------------------------------------------------------------

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment to write cleaned batches to, beside the log. Usable in a thread of its own."""
        handles = HandleCache()
        index_bytes = self._config.segment_index_bytes
        return Segment.create(
            self._storage, handles, self.directory, base_offset, index_bytes, layout.CLEANED_SUFFIX
        )

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        """Put ``new`` (sealed and synced) in the place of ``old``, a run of inactive segments.

        The new segment must reach exactly as far as the run did (an empty batch may do that): recovery takes
        a hole between segments for lost data.
        """
        self._require_working()
        try:
            self._row.replace(old, new, now_ms + self._config.file_delete_delay_ms)
        except OSError as error:
            raise self._fail("swap in a compacted segment", error) from error
        new.adopt(self._handles)
        self._inactive_changed()

    # -- durability --------------------------------------------------------------------

    def sync_due(self, now_ms: int) -> bool:
        """Whether ``flush.messages`` or ``flush.ms`` asks for a sync, or segments have come or gone."""
        durability = self._durability
        pending = self.end_offset - durability.synced_end_offset
        if pending >= self._flush_messages or durability.names_changed or durability.waiting:
            return True
        return pending > 0 and now_ms - durability.last_sync_ms >= self._flush_ms

    def sync_with(self, path: str) -> None:
        """Make a file that lies beside the segments durable with the next sync."""
        self._durability.waiting.append(unsynced_file(self._storage, path))
        self._durability.names_changed = True

    def begin_sync(self) -> SyncTicket:
        """What must be synced so that everything appended so far is durable."""
        self._require_open()
        active = self._open_active()
        try:
            return self._durability.begin(self.end_offset, active, self.epochs)
        except OSError as error:
            raise self._fail("sync", error) from error

    def finish_sync(self, ticket: SyncTicket, now_ms: int) -> None:
        """Take the outcome of a ticket that has run into account. Raises StorageError when it failed, and
        then the log has failed: nobody knows what is on disk, so no later sync may promise it."""
        try:
            self._durability.finish(ticket, now_ms)
        except StorageError:
            self._size_limit = _ALWAYS
            raise

    def _sync_now(self) -> None:
        try:
            self._durability.sync_now(self.end_offset, self._open_active(), self.epochs)
        except StorageError:
            self._size_limit = _ALWAYS
            raise

    def begin_close(self) -> None:
        """Take no more writes and complete the indexes. Syncs may follow, in threads, before ``close``."""
        if self.closed or self.failure is not None or not self._active.active:
            return
        durability = self._durability
        if self.end_offset > self._row.first_offset:
            self._keep_producers(self._snapshots.try_to_write(self.end_offset))
        if self._untouched and durability.is_complete(self.end_offset, self.epochs):
            return
        try:
            durability.waiting.append(self._active.seal())
        except OSError as error:
            self._fail("close", error)
        self._segments_changed()

    @property
    def needs_sync(self) -> bool:
        """Whether something of the log could be lost in a power failure."""
        if self.closed or self.failure is not None:
            return False
        return not self._durability.is_complete(self.end_offset, self.epochs)

    def close(self) -> bool:
        """Make everything durable and let go of all files. False when the log had failed: it must be checked
        when it is opened again."""
        self.begin_close()
        complete = True
        if self.needs_sync:
            try:
                self._sync_now()
            except OSError as error:
                self._fail("close", error)
            except StorageError as error:
                _logger.error("%s was not closed cleanly: %s", self.directory, error.message)
                complete = False
        self.abandon()
        return complete and self.failure is None

    def abandon(self) -> None:
        """Let go of all files without another write: the log is about to be deleted, or has failed."""
        self.closed = True
        self._segments_changed()
        self._durability.abandon()
        self._row.release_all()


def _not_prepared(position: int, data: object) -> None:
    invariant(False, "an append must prepare the active segment first", position)
