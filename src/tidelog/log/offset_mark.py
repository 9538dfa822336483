"""An offset of one log that must survive a crash, as the name of an empty file beside the segments.

==================  =========================================================================================
``….start``         nothing before the offset is readable: DeleteRecords stopped inside a segment
``….clean``         everything before the offset was compacted
``….dense``         from the offset on, every batch begins where the one before it ends
==================  =========================================================================================

A checkpoint of all partitions is late, costs more with every partition, and outlives the partitions in it. A
name costs a system call, survives a killed process at once and a power failure after the directory's next
sync,
cannot be torn, and is removed with its directory.
"""

from collections.abc import Iterable

from tidelog.config.kinds import LONG_MAX
from tidelog.log import layout
from tidelog.log.storage import DirectoryEntry, Storage

NO_OFFSET = -1


class OffsetMark:
    __slots__ = ("_directory", "_storage", "_suffix", "offset")

    def __init__(self, storage: Storage, directory: str, suffix: str) -> None:
        self._storage = storage
        self._directory = directory
        self._suffix = suffix
        self.offset = NO_OFFSET

    def find(self, entries: Iterable[DirectoryEntry]) -> None:
        """Read the mark from a listing of the directory."""
        found = (layout.base_offset_of(entry.name, self._suffix) for entry in entries)
        self.offset = max((offset for offset in found if offset is not None), default=NO_OFFSET)

    def _path(self, offset: int) -> str:
        return layout.segment_path(self._directory, offset) + self._suffix

    @property
    def is_set(self) -> bool:
        return self.offset != NO_OFFSET

    def set(self, offset: int) -> None:
        """Raise or lower the mark: a crash leaves the old one or the new one."""
        if offset == self.offset:
            return
        if self.is_set:
            self._storage.rename(self._path(self.offset), self._path(offset))
        else:
            self._storage.open(self._path(offset), create=True)
        self.offset = offset

    def lower(self, offset: int) -> bool:
        """Lower the mark to ``offset`` if it is above; returns whether it was. The directory must be synced
        then.
        """
        if self.offset <= offset:
            return False
        self.set(offset)
        return True

    def clear(self) -> None:
        if self.is_set:
            self._storage.remove(self._path(self.offset))
            self.offset = NO_OFFSET


class DenseMark(OffsetMark):
    """From where on a log has no gaps: an offset missing between two batches there was lost by the disk.

    Compaction leaves gaps, and so does a follower that copies from a compacted log. Both raise the mark
    first. A log without the mark, from Kafka or from an earlier version, may have gaps anywhere.
    """

    __slots__ = ()

    def __init__(self, storage: Storage, directory: str) -> None:
        super().__init__(storage, directory, layout.DENSE_SUFFIX)

    @property
    def dense_from(self) -> int:
        """A gap that ends after it is damage."""
        return self.offset if self.is_set else LONG_MAX

    def expect_gaps(self, end_offset: int) -> bool:
        """Raise the mark because there may be gaps before ``end_offset`` soon; returns whether it was raised.
        The directory must be synced before such batches count as durable.
        """
        if not self.is_set or end_offset <= self.offset:
            return False
        self.set(end_offset)
        return True
