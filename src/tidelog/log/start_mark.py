"""Where a log starts when that is inside a segment (DeleteRecords), as the name of an empty file beside them.

The data directory's checkpoint of all start offsets comes late and costs the more the more partitions there
are. A name costs a system call, survives a killed process at once and a power failure with the log's next
sync, and cannot be torn.
"""

from collections.abc import Iterable

from tidelog.log import layout
from tidelog.log.storage import Entry, Storage

NO_OFFSET = -1


class StartMark:
    __slots__ = ("_directory", "_storage", "offset")

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self.offset = NO_OFFSET  # At most the log's start offset.

    def find(self, entries: Iterable[Entry]) -> None:
        """Learn the mark from a listing of the directory."""
        found = (layout.base_offset_of(entry.name, layout.START_SUFFIX) for entry in entries)
        self.offset = max((offset for offset in found if offset is not None), default=NO_OFFSET)

    def _path(self, offset: int) -> str:
        return layout.segment_path(self._directory, offset) + layout.START_SUFFIX

    @property
    def is_set(self) -> bool:
        return self.offset != NO_OFFSET

    def set(self, offset: int) -> None:
        """Raise or lower the mark: a crash leaves the old one or the new one."""
        if self.is_set:
            self._storage.rename(self._path(self.offset), self._path(offset))
        else:
            self._storage.open(self._path(offset), create=True)
        self.offset = offset

    def clear(self) -> None:
        if self.is_set:
            self._storage.remove(self._path(self.offset))
            self.offset = NO_OFFSET
