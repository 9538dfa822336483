"""Compares all index entries of a segment with its batches, for the scrubber. Safe in any thread.

Readers check each entry that they use. Most entries are not used for years, and a reader that finds a wrong
one waits until the index is rebuilt.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.log.aborted_index import decode
from tidelog.log.files import read_whole
from tidelog.log.index import DamagedIndex, offset_entries, time_entries
from tidelog.log.index_build import NO_TIMESTAMP, timestamp_of
from tidelog.log.scan import WrongPlace, find_batch, header_at
from tidelog.log.segment import Segment
from tidelog.log.storage import File, Storage

ENTRIES_PER_STEP = 512


class IndexPiece(NamedTuple):
    """Some entries of both indexes of an inactive segment, and its aborted transactions."""

    segment: Segment
    first: int  # Number of the first entry.
    storage: Storage
    file: File
    paths: tuple[str, str, str]
    base_offset: int
    size: int

    def check(self) -> str:
        """What is wrong; empty if nothing is."""
        try:
            return self._check()
        except OSError as error:
            return f"cannot be read: {error}"
        except (DamagedIndex, WrongPlace) as error:
            return str(error)
        except CorruptBatch:
            return ""  # Not the index's fault. The check of the segment itself reports it.

    def _check(self) -> str:
        base, size = self.base_offset, self.size
        index_path, time_path, aborted_path = self.paths
        by_offset = offset_entries(read_whole(self.storage, index_path) or b"", base)
        some = slice(self.first, self.first + ENTRIES_PER_STEP)
        for last, position in by_offset[some]:
            header = header_at(self.file, position, size)
            if header is None or header.last_offset != last:
                return f"{index_path}: offset {last} is not at position {position}"
        for timestamp, offset in time_entries(read_whole(self.storage, time_path) or b"", base)[some]:
            floor = bisect_right(by_offset, (offset, size))
            last, position = by_offset[floor - 1] if floor else (-1, 0)
            place = find_batch(self.file, position, size, offset, base, last)
            header = header_at(self.file, place.position, size)
            found = (timestamp_of(header), header.last_offset) if header is not None else None
            if timestamp != NO_TIMESTAMP and found != (timestamp, offset):
                return f"{time_path}: timestamp {timestamp} is not at offset {offset}"
        if self.first == 0:
            decode(read_whole(self.storage, aborted_path) or b"", base)
        return ""


def index_pieces(segment: Segment) -> Iterator[IndexPiece]:
    """All entries of an inactive segment's indexes."""
    offsets, times = segment.indexes.offsets, segment.indexes.times
    paths = (offsets.path, times.path, segment.aborted.path)
    for first in range(0, max(offsets.count, times.count, 1), ENTRIES_PER_STEP):
        yield IndexPiece(
            segment, first, segment.storage, segment.file(), paths, segment.base_offset, segment.size
        )
