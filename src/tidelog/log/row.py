"""The segments of one log, oldest first.

They are found by offset; they are added, dropped and replaced so that no crash leaves a hole between them.
Owns the order and the names on disk. Knows neither what is readable nor what is committed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tidelog.invariant import invariant
from tidelog.log import layout
from tidelog.log.index_build import RELATIVE_OFFSET_MAX
from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.log.swap import swap_in


class SegmentRow:
    __slots__ = ("_bases", "_doomed", "_segments")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._doomed: list[tuple[int, Segment]] = []  # (when to remove, segment renamed to .deleted)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def end_of(self, segment: Segment, log_end_offset: int) -> tuple[int, Segment | None]:
        """(exclusive end offset of what a segment holds, the next segment or None)."""
        number = self.number_of(segment.base_offset) + 1
        if number >= len(self._segments):
            return log_end_offset, None
        return self._bases[number], self._segments[number]

    def number_of(self, offset: int) -> int:
        """Number of the segment that holds ``offset``, or would."""
        return bisect_right(self._bases, offset) - 1

    def locate(self, offset: int) -> tuple[Segment, int, int]:
        """(segment, position, size) of the first batch that ends at or after ``offset``, which is before the
        log's end. Raises BrokenChain if it is not found.
        """
        number = bisect_right(self._bases, offset) - 1
        segment = self._segments[number]
        position, size, reached, previous = segment.locate(offset)
        if size == 0:
            # Neither rolling nor compaction leaves a hole between segments.
            if not self._may_end_early(number):
                last = segment.header_at(previous)
                whole = min(reached, last.base_offset) if last is not None else reached
                message = f"{segment.path} ends at offset {reached}, and {offset} was expected in it"
                raise BrokenChain(message, previous, whole)
            segment = self._segments[number + 1]
            position, size, _, _ = segment.locate(offset)
        return segment, position, size

    def _may_end_early(self, number: int) -> bool:
        """Only a follower whose leader has no records for more offsets than a segment can hold starts the
        next one further up.
        """
        if number + 1 >= len(self._segments):
            return False
        return self._bases[number + 1] > self._bases[number] + RELATIVE_OFFSET_MAX + 1

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def pop(self) -> Segment:
        """Remove the newest segment from the row without touching its files."""
        self._bases.pop()
        return self._segments.pop()

    def drop_newest(self, keep: int) -> None:
        """Newest first: a crash in between must not leave a hole."""
        while len(self._segments) > keep:
            segment = self._segments[-1]
            segment.rename(layout.DELETED_SUFFIX)
            self.pop()
            self._doom(segment, 0)

    def drop_oldest(self, due_ms: int) -> Segment:
        """Oldest first, one at a time, for the same reason."""
        segment = self._segments[0]
        segment.rename(layout.DELETED_SUFFIX)
        del self._segments[0], self._bases[0]
        self._doom(segment, due_ms)
        return segment

    def replace(self, old: Sequence[Segment], new: Segment, due_ms: int) -> None:
        """Replace a run of inactive segments by ``new``, which is complete and synced under ``.cleaned``."""
        first = self._segments.index(old[0])
        end = first + len(old)
        invariant(self._segments[first:end] == list(old), "a run of the log's segments", old)
        invariant(end < len(self._segments), "the active segment is never replaced", old)
        invariant(new.base_offset == old[0].base_offset, "the same base offset", new, old[0])
        reached = new.read_next_offset()
        no_hole = reached == self._bases[end] or reached == old[-1].read_next_offset()
        invariant(no_hole, "recovery takes a hole after a segment for lost data", new, reached)
        swap_in(old, new)
        self._segments[first:end] = [new]
        self._bases[first:end] = [new.base_offset]
        for segment in old:
            self._doom(segment, due_ms)

    def _doom(self, segment: Segment, due_ms: int) -> None:
        segment.release_all()
        self._doomed.append((due_ms, segment))

    def take_deleted(self, now_ms: int) -> list[Segment]:
        """Segments that left the row long enough ago; the caller removes their files."""
        if not self._doomed:
            return []
        due = [segment for due_ms, segment in self._doomed if due_ms <= now_ms]
        self._doomed = [each for each in self._doomed if each[0] > now_ms]
        return due

    def release_all(self) -> None:
        for segment in self._segments:
            segment.release_all()
