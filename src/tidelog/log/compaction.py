"""One pass of compaction over one log: ``cleanup.policy=compact`` keeps the newest record of each key.

Owns the order of the work. What may be compacted is decided in :mod:`tidelog.log.cleaner_plan`, what
happens to a single batch in :mod:`tidelog.log.cleaner_filter`, and which log comes next in
:mod:`tidelog.log.cleaner`. Knows neither threads nor clocks.

**A pass** reads the keys of the dirty part (:meth:`Compaction.read_keys`), as far as the map of keys has
room, and then rewrites the segments up to there, from the oldest on (:meth:`Compaction.clean_next`). Both
read only files that are no longer written and write only files beside them, so they run in a thread of
their own while the log is in use. Between two calls the log's thread swaps in each finished segment
(:meth:`Compaction.swap_in`).

**Order matters.** Older segments are replaced first, and a pass is done only when all of its
segments are in place and durable. So no crash can leave an older value of a key whose tombstone is gone.

**Memory** is the map of keys (32 bytes each, at most ``keys_max``), a few megabytes of buffers, and the
largest batch of the log, opened.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tidelog.errors import InvariantViolation, StorageError
from tidelog.log.cleaner_files import CleanedWriter, CompactionAbandoned, discard, open_source, read_batches
from tidelog.log.cleaner_filter import BatchFilter, open_batch
from tidelog.log.cleaner_map import KeyOffsets
from tidelog.log.cleaner_plan import Cleanable, CompactionSettings, Source, group_by_size, sources_of
from tidelog.log.cleaner_transactions import CleanedTransactions, OpenInSnapshots
from tidelog.log.log import Log
from tidelog.log.producer_snapshots import open_in_snapshot
from tidelog.log.producers import LastWritten
from tidelog.log.scan import headers
from tidelog.log.segment import Segment
from tidelog.log.storage import Storage
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.framing import records_max
from tidelog.protocol.markers import decode_marker

Pace = Callable[[int], None]
"""Called with the size of each batch that was read, so that the thread can yield."""


class Cleaned(NamedTuple):
    """A finished, durable segment that is not swapped in yet."""

    sources: Sequence[Source]
    segment: Segment


class Compaction:
    """One pass. The cleaning thread and the log's thread alternate."""

    def __init__(
        self,
        storage: Storage,
        log: Log,
        settings: CompactionSettings,
        cleanable: Cleanable,
        *,
        now_ms: int,
        keys_max: int,
        last_written: Mapping[int, LastWritten] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """``last_written``: of each live producer id, so that its last batch leaves a trace."""
        self.log = log
        self.first_dirty_offset = cleanable.first_dirty_offset
        self.end_offset = cleanable.first_dirty_offset  # Exclusive; the next pass starts here.
        self.bytes_read = 0
        self.bytes_written = 0
        self._storage = storage
        self._now_ms = now_ms
        self._settings = settings
        self._keys_max = keys_max
        self._last_written = dict(last_written or {})
        self._pace = pace
        # The record at an offset never changes within one leader's history. When the history changed, what
        # was read may be outdated.
        self._leader_epoch = log.epochs.latest
        self._cuts = log.cuts
        self._sources = sources_of(log, cleanable.end_offset)
        self._aborted = log.aborted(log.segments[0].base_offset, cleanable.end_offset)
        # Later snapshots are after the end of this pass.
        snapshots = OpenInSnapshots(log.snapshot_offsets, self._open_in_snapshot)
        self._transactions = CleanedTransactions(self._aborted, snapshots)
        self._groups: Iterator[list[Source]] = iter(())
        self._filter: BatchFilter | None = None

    @property
    def records_kept(self) -> int:
        return self._filter.records_kept if self._filter else 0

    @property
    def records_dropped(self) -> int:
        return self._filter.records_dropped if self._filter else 0

    # -- in a thread of its own --------------------------------------------------------

    def read_keys(self) -> None:
        """Learn the newest offset of each key of the dirty part, as far as the map has room."""
        try:
            self._read_keys()
        except OSError as error:
            raise StorageError(f"cannot read {self.log.directory}: {error}") from error

    def _read_keys(self) -> None:
        dirty = [source for source in self._sources if source.end_offset > self.first_dirty_offset]
        newest = KeyOffsets(self._capacity_for(dirty))
        self.end_offset = self._learn(newest, dirty)
        self._filter = BatchFilter(
            newest,
            self.end_offset,
            self._now_ms,
            self._settings.delete_retention_ms,
            self._last_written,
            self._transactions,
        )
        touched = [source for source in self._sources if source.base_offset < self.end_offset]
        self._groups = group_by_size(
            touched, self._settings.segment_bytes, self._settings.segment_index_bytes
        )

    def _capacity_for(self, dirty: list[Source]) -> int:
        """Room for every dirty record, within the limit, and always for the first batch: otherwise a pass
        would make no progress.
        """
        records = 0
        first_batch = 1
        for source in dirty:
            for position, header in headers(open_source(self._storage, source), 0, source.size):
                if header.next_offset <= self.first_dirty_offset:
                    continue
                claimed = _claimed(header)
                if records == 0:
                    if claimed > self._keys_max:
                        claimed = self._count(source, position, header)
                    first_batch = max(1, claimed)
                records += claimed
                if records >= self._keys_max:
                    return max(self._keys_max, first_batch)
        return max(records, first_batch)

    def _count(self, source: Source, position: int, header: BatchHeader) -> int:
        """The actual number of records in a batch that claims many."""
        batch = open_source(self._storage, source).read_at(position, header.size)
        return _readable(memoryview(batch), header)

    def _learn(self, newest: KeyOffsets, dirty: list[Source]) -> int:
        """Put keys into the map; returns the exclusive end offset of what it knows, always at a batch
        boundary.
        """
        end_offset = self.first_dirty_offset
        transactions = CleanedTransactions(
            aborted for aborted in self._aborted if aborted.last_offset >= self.first_dirty_offset
        )
        for source in dirty:
            for batch, header in self._batches(source, self.first_dirty_offset):
                room = newest.capacity - newest.count
                if _claimed(header) > room and _readable(batch, header) > room:
                    return end_offset
                if header.is_control:
                    transactions.ends_something(header, decode_marker(batch, header))
                elif not transactions.is_aborted(header):
                    _put_keys(newest, batch, header)
                end_offset = header.next_offset
            end_offset = source.end_offset
        return end_offset

    def clean_next(self) -> Cleaned | None:
        """Rewrite the next run of segments beside the log; None when the pass is complete.

        A single segment from which nothing is removed is left as it is.
        """
        for sources in self._groups:
            try:
                segment = self._clean(sources)
            except OSError as error:
                raise StorageError(f"cannot compact {self.log.directory}: {error}") from error
            if segment is not None:
                self.bytes_written += segment.size
                return Cleaned(sources, segment)
        return None

    def _clean(self, sources: list[Source]) -> Segment | None:
        writer = CleanedWriter(
            self.log.new_cleaned_segment(sources[0].base_offset), self._settings.index_interval_bytes
        )
        try:
            self._transactions.kept.clear()
            changed = self._filter_into(writer, sources)
            # Recovery treats a hole between segments as lost data. If the last batch of the old segment did
            # not reach the next one, the new segment cannot, either.
            if changed and writer.next_offset == sources[-1].end_offset:
                if any(source.segment.aborted.exists for source in sources):
                    writer.index_aborted(self._transactions.kept)
                return writer.finish()
        except Exception:
            writer.discard()
            raise
        writer.discard()
        return None

    def _filter_into(self, writer: CleanedWriter, sources: list[Source]) -> bool:
        """Write what is left of the sources; returns whether the log would change."""
        rules = self._filter
        if rules is None:
            raise InvariantViolation("the keys must be read before segments are rewritten")
        # The last batch of the run leaves a trace so that no hole opens; so does the last one whose keys are
        # known, as in Kafka, where it shows how far the log is clean.
        traces = (sources[-1].end_offset, self.end_offset)
        changed = len(sources) > 1
        for source in sources:
            for batch, header in self._batches(source):
                left = rules.apply(batch, header, traces)
                changed = changed or left is not batch
                if left is not None:
                    writer.append(left)
        return changed

    def _batches(self, source: Source, from_offset: int = 0) -> Iterator[tuple[memoryview, BatchHeader]]:
        for batch, header in read_batches(self._storage, source, from_offset):
            self.bytes_read += header.size
            if self._pace is not None:
                self._pace(header.size)
            yield batch, header

    def _open_in_snapshot(self, offset: int) -> Collection[int]:
        return open_in_snapshot(self._storage, self.log.directory, offset)

    def make_durable(self) -> None:
        """Sync the names of the new segments before the log is marked clean."""
        try:
            self._storage.sync_directory(self.log.directory)
        except OSError as error:
            raise StorageError(f"cannot sync {self.log.directory}: {error}") from error

    # -- in the log's thread -----------------------------------------------------------

    def swap_in(self, cleaned: Cleaned, now_ms: int) -> None:
        """Replace the sources by a finished segment.

        Raises :class:`CompactionAbandoned` if they have changed; then the pass is over.
        """
        if not self._is_unchanged(cleaned.sources):
            discard(cleaned.segment)
            raise CompactionAbandoned(f"{self.log.directory} was changed while it was compacted")
        self.log.replace_segments([source.segment for source in cleaned.sources], cleaned.segment, now_ms)

    def finish(self) -> None:
        """Record how far the log is clean. Only after :meth:`make_durable`: a mark beyond what is durable
        would remove a tombstone while an older value of its key still exists.
        """
        if not self._is_same_log():
            raise CompactionAbandoned(f"{self.log.directory} was changed while it was compacted")
        self.log.mark_clean(self.end_offset)

    def _is_same_log(self) -> bool:
        log = self.log
        return (
            not log.closed
            and log.failure is None
            and log.epochs.latest == self._leader_epoch
            and log.cuts == self._cuts
        )

    def _is_unchanged(self, sources: Sequence[Source]) -> bool:
        log = self.log
        if not self._is_same_log():
            return False
        present = {source.segment: source for source in sources_of(log, sources[-1].end_offset)}
        return all(source.is_same(present.get(source.segment)) for source in sources)


def _claimed(header: BatchHeader) -> int:
    """The number of records that a header claims, within what is possible."""
    return min(header.count, records_max(header))


def _readable(batch: memoryview, header: BatchHeader) -> int:
    opened = open_batch(batch, header)
    return 0 if opened is None else len(opened[1])


def _put_keys(newest: KeyOffsets, batch: memoryview, header: BatchHeader) -> None:
    opened = open_batch(batch, header)
    if opened is None:
        return
    payload, found = opened
    view = memoryview(payload)
    for raw in found:
        if raw.key_size >= 0:
            key = view[raw.key_start : raw.key_start + raw.key_size]
            newest.put(key, header.base_offset + raw.offset_delta)
