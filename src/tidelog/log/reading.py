"""How batches are found in a log: by offset or by time; and which transactions ``read_committed`` readers
skip.

A read finds the segment, bisects its index and hops over a few headers, anywhere in the log. No data is
copied: the caller gets the position in the file. Reads continue after the log has failed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidelog.errors import CorruptBatch, OffsetOutOfRange, StorageError
from tidelog.log import lookup
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.base import LogBase
from tidelog.log.index import DamagedIndex
from tidelog.log.index_build import IndexBuild, deferring
from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.log.storage import EMPTY_REGION, Region
from tidelog.log.verification import ORDER_SIZE, SLICE_BYTES, DamagedSegment, verify_read
from tidelog.protocol.batch import BatchHeader
from tidelog.types import NO_EPOCH


class Unread:
    """How many bytes may still be checked at once, in all logs together: a reader of a thousand partitions
    must not delay other clients. Each partition still gets its first batch.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = SLICE_BYTES


class Reading(LogBase):
    __slots__ = ()

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool,
        unread: Unread | None = None,
    ) -> Region:  # fmt: skip
        """Where the batches from the one that holds ``offset`` on lie, up to ``max_bytes`` and before
        ``end_offset``, in one segment. The last batch may be cut by ``max_bytes``, the first one is not when
        ``at_least_one_batch`` asks so. Empty when nothing is there; raises OffsetOutOfRange, and
        DamagedSegment where the records are not what was written. ``unread``: shared by all reads that are
        made at once; with it :class:`~tidelog.log.index_build.Unindexed` is raised where the indexes of a
        large segment have to be built first.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.directory}: {self.start_offset} to {self.end_offset}"
            )
        if offset >= end_offset or offset == self.end_offset:
            return EMPTY_REGION
        try:
            if unread is None or offset == self._tail_offset:
                return self._region(offset, max_bytes, end_offset, at_least_one_batch, unread or Unread())
            with deferring(self._near(offset)):
                return self._region(offset, max_bytes, end_offset, at_least_one_batch, unread)
        except CorruptBatch as error:
            raise self._damaged(error, offset) from error
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error

    def _near(self, offset: int) -> Sequence[Segment]:
        """Where a batch that holds ``offset`` is looked for."""
        number = self._row.number_of(offset)
        return self._row.segments[number : number + 2]

    def take_indexes(self, segment: Segment, build: IndexBuild) -> None:
        """Put indexes in place that were built elsewhere; nothing was truncated since. A segment that has
        left the log meanwhile needs none."""
        if self.closed or segment not in self._row.segments:
            return
        with self._reporting():
            segment.indexes.take(build)

    def _damaged(self, error: CorruptBatch, offset: int) -> DamagedSegment:
        if isinstance(error, BrokenChain):
            offset = min(offset, error.offset)
        return DamagedSegment(f"{self.directory} is damaged: {error.message}", offset)

    def _region(
        self, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool, unread: Unread
    ) -> Region:
        if offset == self._tail_offset:
            segment, position = self._active, self._tail_position
            size = segment.size - position
        else:
            segment, position, size = self._row.locate(offset)
        available = self._end_position(segment, end_offset) - position
        if available <= 0:
            if position < segment.trusted_from:
                # A damaged batch may wrongly claim to end after ``end_offset``: readers would wait for ever.
                self._verify(segment, position, size, offset, is_whole=True)
                first = segment.header_at(position)
                if first is not None and first.next_offset <= end_offset:
                    # It is intact, and what follows it is not. Its readers find that when they go on.
                    return Region(segment.file(), position, size)
            return EMPTY_REGION
        is_whole = available <= max_bytes
        if not is_whole:
            available = max(max_bytes, size) if at_least_one_batch else max_bytes
        if position < segment.trusted_from:
            available = self._verified(
                segment, position, available, size, offset, is_whole=is_whole, unread=unread
            )
        return Region(segment.file(), position, available)

    def _verified(
        self, segment: Segment, position: int, available: int, first_size: int, offset: int, *,
        is_whole: bool, unread: Unread,
    ) -> int:  # fmt: skip
        """How many of ``available`` bytes a reader of ``offset`` gets now. One slice at a time is checked,
        and always the first batch, which has ``first_size`` bytes: a reader of more fetches again.
        """
        known = segment.verified.end_from(position)
        # The checked range may end within a batch. Less than a whole one is useless to a reader.
        if known - position >= min(first_size, available):
            return min(available, known - position)
        size = min(available, max(unread.bytes, first_size))
        unread.bytes = max(unread.bytes - size, 0)
        self._verify(segment, position, size, offset, is_whole=is_whole and size == available)
        return size

    def _verify(self, segment: Segment, position: int, size: int, offset: int, *, is_whole: bool) -> None:
        if position + size <= segment.verified.end_from(position):
            return
        end_offset, following = self._row.end_of(segment, self.end_offset)
        epoch_max: int = NO_EPOCH
        if following is not None and position + size + ORDER_SIZE >= segment.size:
            first = following.header_at(0)
            epoch_max = first.leader_epoch if first is not None else NO_EPOCH
        header, whole_bytes = verify_read(
            segment, position, size, offset, end_offset, is_whole=is_whole, epoch_max=epoch_max,
            history=self.epochs.history(),
        )  # fmt: skip
        if header is not None and header.base_offset > self._row.first_offset:
            self._verify_epoch(header, offset)
        if whole_bytes:
            # Not before: the next read must find the damage again. And always at a batch boundary, so that
            # readers get whole batches.
            segment.verified.note(position, position + whole_bytes)

    def _verify_epoch(self, header: BatchHeader, offset: int) -> None:
        """Of the first batch that is read: the batches after it were compared with each other. A history
        without a checksum may be wrong, so the batch before tells, except where an epoch begins.
        """
        if header.leader_epoch == self.epochs.epoch_at(header.base_offset):
            return
        try:
            segment, position, _ = self._row.locate(header.base_offset - 1)
        except BrokenChain:
            return  # Of records that were not requested.
        previous = segment.header_at(position)
        if previous is not None and previous.leader_epoch > header.leader_epoch:
            message = f"leader epoch {header.leader_epoch} follows {previous.leader_epoch}"
            raise DamagedSegment(f"{self.directory} is damaged: {message}", min(previous.base_offset, offset))

    def _end_position(self, segment: Segment, end_offset: int) -> int:
        """The end of the last batch of ``segment`` that is entirely before ``end_offset``."""
        if end_offset >= self.end_offset:
            return segment.size
        if end_offset == self._tail_offset and segment is self._active:
            return self._tail_position
        known_offset, known_segment, known_position = self._limit
        if known_offset == end_offset and known_segment is segment:
            return known_position
        try:
            position = segment.locate(end_offset).position
        except BrokenChain as error:
            # Records before the damage are intact and can be read.
            return error.position
        self._limit = (end_offset, segment, position)
        return position

    # -- transactions ------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Exclusive end of what ``read_committed`` readers may see."""
        return max(self.producers.transactions.last_stable_offset(high_watermark), self.start_offset)

    def aborted_in(self, offset: int, size: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction that may be in the next ``size`` bytes."""
        later = self._row.segments[self._row.number_of(offset) :]
        if all(segment.aborted.is_empty for segment in later):
            return []
        with self._reporting(), deferring(self._near(offset)):
            behind = self._offset_behind(offset, size)
        return self.aborted_transactions(offset, min(end_offset, behind))

    def _offset_behind(self, offset: int, size: int) -> int:
        """Exclusive upper bound of offsets in the next ``size`` bytes from ``offset`` on of a segment."""
        segment, position, _ = self._row.locate(offset)
        behind = segment.indexes.offset_behind(position + size)
        if behind is not None:
            return behind
        number = self._row.number_of(segment.base_offset) + 1
        return self._row.segments[number].base_offset if number < len(self._row) else self.end_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with records in the range, by offset."""
        found = [
            (aborted.first_offset, aborted.producer_id) for aborted in self.aborted(start_offset, end_offset)
        ]
        return [(producer_id, first_offset) for first_offset, producer_id in sorted(found)]

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The same with all their fields, in the order of their markers."""
        found: list[AbortedTransaction] = []
        with self._reporting():
            for number in range(self._row.number_of(start_offset), len(self._row)):
                segment = self._row.segments[number]
                if not segment.aborted.is_empty:
                    segment_end, _ = self._row.end_of(segment, self.end_offset)
                    try:
                        more, complete = segment.aborted.find(start_offset, end_offset, segment_end)
                    except DamagedIndex as error:
                        self._rebuild_aborted(number, error)
                        more, complete = segment.aborted.find(start_offset, end_offset)
                    found += more
                    if complete:
                        break
        return found

    def repair_indexes(self, segment: Segment, reason: str) -> None:
        """The scrubber has found a wrong entry in the indexes of an inactive segment."""
        if self.closed or segment not in self._row.segments:
            return
        with self._reporting():
            self._rebuild_aborted(self._row.segments.index(segment), DamagedIndex(reason))
            segment.indexes.distrust()

    def find_timestamp(
        self, timestamp_ms: int, end_offset: int, opened: lookup.Opened | None = None
    ) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record before ``end_offset`` that is not older. With
        ``opened`` it raises :class:`~tidelog.log.lookup.Unopened` where a batch must be looked through, and
        :class:`~tidelog.log.index_build.Unindexed` as :meth:`read` does.
        """
        segments = self._row.segments
        with self._reporting(), deferring(segments if opened is not None else ()):
            found = lookup.first_at_or_after(
                segments, timestamp_ms, self.start_offset, end_offset, self.end_offset, opened
            )
        return self._confirmed(found)

    def _confirmed(self, found: lookup.Found | None) -> lookup.Found | None:
        """If the epoch history disagrees, the batch is compared with what follows it."""
        if found is not None and found[2] != self.epochs.epoch_at(found[1]):
            self.read(found[1], 1, self.end_offset, at_least_one_batch=True)
        return found

    def find_max_timestamp(
        self, end_offset: int, opened: lookup.Opened | None = None
    ) -> tuple[int, int, int] | None:
        """The same of the first record that has the largest timestamp of all before ``end_offset``."""
        segments = self._row.segments
        with self._reporting(), deferring(segments if opened is not None else ()):
            found = lookup.newest(segments, self.start_offset, end_offset, self.end_offset, opened)
        return self._confirmed(found)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Convert errors of the files into those that callers expect."""
        try:
            yield
        except BrokenChain as error:
            raise self._damaged(error, self.end_offset) from error
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error
