"""Rebuilding the indexes of a segment from its batches, a slice at a time.

Every byte of the segment is read and checked, and a segment may have a gigabyte. A caller that must not wait
for that gets :class:`Unindexed`, has the slices made in a thread, and asks again when the indexes are in
place (:meth:`tidelog.log.segment_indexes.SegmentIndexes.take`). Until then other readers use the entries that
there are: each one that they follow is compared with its batch.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from tidelog.log.scan import BrokenChain, whole_headers
from tidelog.protocol.batch import BatchHeader

if TYPE_CHECKING:
    from tidelog.log.segment import Segment

SLICE_BYTES = 1 << 20  # In a thread. A batch that is larger is one slice.
AT_ONCE_BYTES_MAX = 128 << 10  # A smaller segment is indexed where it is noticed: less than 5 ms.
INTERVAL_BYTES = 4096
RELATIVE_OFFSET_MAX = (1 << 31) - 1  # Index entries hold offsets relative to the base offset in 4 bytes.
NO_TIMESTAMP = -1
_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


def timestamp_of(header: BatchHeader) -> int:
    """The largest timestamp of a batch's records. One that compaction left empty still has a timestamp in its
    header, but it has no record to find."""
    return header.max_timestamp if header.count else NO_TIMESTAMP


class Unindexed(Exception):
    """The indexes of a segment must be rebuilt, and that takes too long here."""

    def __init__(self, segment: "Segment", reason: str) -> None:
        super().__init__(reason)
        self.segment = segment
        self.reason = reason


class deferring:  # noqa: N801 - a context manager, and cheaper than one that is made from a generator
    """While it lasts, the segments build no large index themselves."""

    __slots__ = ("_segments",)

    def __init__(self, segments: "Sequence[Segment]") -> None:
        self._segments = segments

    def __enter__(self) -> None:
        for segment in self._segments:
            segment.indexes.defers = True

    def __exit__(self, *_: object) -> None:
        for segment in self._segments:
            segment.indexes.defers = False


class IndexBuild:
    """One building of both indexes. :meth:`step` is safe in any thread, in one at a time."""

    def __init__(self, segment: "Segment") -> None:
        self.size = segment.size  # What is appended from now on is not in it.
        self.base_offset = segment.base_offset
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = segment.base_offset
        self.broken: BrokenChain | None = None  # Why the entries do not reach the end.
        self.done_bytes = 0
        self._last_time = NO_TIMESTAMP
        self._has_times = False
        offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
        self._headers: Iterator[tuple[int, BatchHeader]] = whole_headers(
            segment.file(), self.size, segment.base_offset, offset_max, segment.dense_from
        )

    def step(self, bytes_max: int = SLICE_BYTES) -> bool:
        """Read about so many bytes more; whether that was all. May raise ``OSError``."""
        limit = self.done_bytes + bytes_max
        try:
            for position, header in self._headers:
                self._note(position, header)
                self.done_bytes = position + header.size
                if self.done_bytes >= limit:
                    return False
        except BrokenChain as error:
            self.broken = error
        return True

    def _note(self, position: int, header: BatchHeader) -> None:
        timestamp, last_offset = timestamp_of(header), header.last_offset
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
        if position - self.indexed_position > INTERVAL_BYTES:
            self.offset_entries += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
            self._add_time()
            self.indexed_position = position

    def _add_time(self) -> None:
        if not self._has_times or self.max_timestamp > self._last_time:
            relative = self.max_timestamp_offset - self.base_offset
            self.time_entries += _TIME_ENTRY.pack(self.max_timestamp, relative)
            self._last_time, self._has_times = self.max_timestamp, True
