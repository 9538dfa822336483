"""How batches are found in a log: by offset or by time; and what readers of committed records must know.

A read finds the segment, bisects its index and hops over a few headers, wherever in the log it is. No data is
copied: the caller gets the place in the file. Reads go on when the log has failed.
"""

from tidelog.errors import CorruptBatch, OffsetOutOfRange, StorageError
from tidelog.log import lookup
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.segment import Segment
from tidelog.log.state import LogState
from tidelog.log.storage import EMPTY_REGION, Region
from tidelog.log.verification import DamagedSegment, verified_bytes, verify_read


class Reading(LogState):
    __slots__ = ()

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Region:
        """Where the batches from the one that holds ``offset`` on lie, up to ``max_bytes`` and before
        ``end_offset``, in one segment. The last batch may be cut by ``max_bytes``, the first one is not when
        ``at_least_one_batch`` asks so. Empty when nothing is there; raises OffsetOutOfRange, and
        DamagedSegment where the records are not what was written.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.directory}: {self.start_offset} to {self.end_offset}"
            )
        if offset >= end_offset or offset == self.end_offset:
            return EMPTY_REGION
        try:
            return self._region(offset, max_bytes, end_offset, at_least_one_batch)
        except CorruptBatch as error:
            raise DamagedSegment(f"{self.directory} is damaged: {error.message}", offset) from error
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
            if position < segment.trusted_from:
                # A damaged batch may only claim to end behind ``end_offset``: readers would wait for ever.
                verify_read(segment, position, size, offset, self._row.end_of(segment, self.end_offset))
            return EMPTY_REGION
        if available > max_bytes:
            available = max(max_bytes, size) if at_least_one_batch else max_bytes
        if position < segment.trusted_from:
            end = self._row.end_of(segment, self.end_offset)
            available = verified_bytes(segment, position, available, size, offset, end)
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

    # -- transactions ------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """Exclusive end of what readers of committed records may see."""
        return max(self.producers.transactions.last_stable_offset(high_watermark), self.start_offset)

    def aborted_in(self, offset: int, size: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction that who reads so many bytes may meet."""
        if not any(segment.aborted.size for segment in self._row.segments[self._row.number_of(offset) :]):
            return []
        return self.aborted_transactions(offset, min(end_offset, self._offset_behind(offset, size)))

    def _offset_behind(self, offset: int, size: int) -> int:
        """Exclusive: no later offset is among the next ``size`` bytes from ``offset`` on in one segment."""
        segment, position, _ = self._row.locate(offset)
        index = segment.index
        behind = index.first_entry(lambda number: index.entry(number)[1] >= position + size)
        if behind < index.count:
            return index.entry(behind)[0]
        number = self._row.number_of(segment.base_offset) + 1
        return self._row.segments[number].base_offset if number < len(self._row) else self.end_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with records in the range, by offset."""
        found = [
            (aborted.first_offset, aborted.producer_id) for aborted in self.aborted(start_offset, end_offset)
        ]
        return [(producer_id, first_offset) for first_offset, producer_id in sorted(found)]

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The same with all that is known of them, in the order of their markers."""
        found: list[AbortedTransaction] = []
        try:
            for segment in self._row.segments[self._row.number_of(start_offset) :]:
                if segment.aborted.exists:
                    more, complete = segment.aborted.find(start_offset, end_offset)
                    found += more
                    if complete:
                        break
        except OSError as error:
            raise StorageError(f"cannot read {self.directory}: {error}") from error
        return found

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
