"""The snapshots beside the metadata log: writing them, finding the newest good one, and passing them on.

A snapshot's file has its name only when it is whole and synced: it is written under another name, synced,
renamed, and the directory is synced. So a crash at any point leaves it there or not, never half. The same
holds for one that is being received from another node.

Files only: what is in them is told by :mod:`~tidelog.controller.snapshot_file`, and whoever uses this says
when.
"""

import logging
from collections.abc import Callable

from tidelog.controller import snapshot_file
from tidelog.controller.snapshot_file import Contents
from tidelog.errors import StorageError
from tidelog.log.files import read_whole, write_beside
from tidelog.log.layout import TEMPORARY_SUFFIX
from tidelog.log.storage import Buffer, File, Storage
from tidelog.types import SnapshotId

logger = logging.getLogger(__name__)

PART_SUFFIX = ".part"
KEPT = 2  # The newest, and the one before: the log reaches back to that, should the newest be damaged.


class SnapshotStore:
    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._known = self._find()

    def _find(self) -> list[SnapshotId]:
        found = []
        for entry in self._storage.list(self._directory):
            snapshot = snapshot_file.snapshot_named(entry.name)
            if snapshot is not None:
                found.append(snapshot)
            elif entry.name.endswith(
                (snapshot_file.SUFFIX + PART_SUFFIX, snapshot_file.SUFFIX + TEMPORARY_SUFFIX)
            ):
                self._storage.remove(f"{self._directory}/{entry.name}")
        return sorted(found)

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_file.name_of(snapshot)}"

    # --- finding --------------------------------------------------------------------------------------------

    @property
    def newest(self) -> SnapshotId | None:
        return self._known[-1] if self._known else None

    @property
    def oldest(self) -> SnapshotId | None:
        return self._known[0] if self._known else None

    @property
    def count(self) -> int:
        return len(self._known)

    def ending_at(self, offset: int) -> SnapshotId | None:
        return next((snapshot for snapshot in self._known if snapshot.end_offset == offset), None)

    def load_newest(self) -> Contents | None:
        """The newest snapshot that is whole. Damaged ones are told and passed over; their files stay."""
        for snapshot in reversed(list(self._known)):
            try:
                contents = self._load(self._path(snapshot), snapshot)
            except (StorageError, OSError) as error:
                logger.error("%s is passed over: %s", self._path(snapshot), error)
                self._known.remove(snapshot)
                continue
            return contents
        return None

    def _load(self, path: str, expected: SnapshotId) -> Contents:
        contents = snapshot_file.decode(read_whole(self._storage, path) or b"")
        if contents.snapshot != expected:
            raise StorageError(f"it holds snapshot {contents.snapshot}, not what its name says")
        return contents

    # --- writing --------------------------------------------------------------------------------------------

    def writing(self, contents: Contents, now_ms: int) -> Callable[[], None]:
        """The work that writes a snapshot, for a thread: the image never changes. Raises OSError."""
        path = self._path(contents.snapshot)

        def write() -> None:
            file = write_beside(self._storage, path + TEMPORARY_SUFFIX, b"")
            position = 0
            for batch in snapshot_file.encode(contents, now_ms):
                file.write_at(position, batch)
                position += len(batch)
            self._finish(file, path + TEMPORARY_SUFFIX, path)

        return write

    def _finish(self, file: File, temporary: str, path: str) -> None:
        file.sync()
        self._storage.rename(temporary, path)
        self._storage.sync_directory(self._directory)

    def written(self, snapshot: SnapshotId) -> None:
        """It is on disk: from now on it counts."""
        if snapshot not in self._known:
            self._known = sorted([*self._known, snapshot])

    def remove_old(self) -> None:
        """Remove all but the newest ones. Raises OSError."""
        while len(self._known) > KEPT:
            self._storage.remove(self._path(self._known[0]))
            del self._known[0]

    # --- passing on -----------------------------------------------------------------------------------------

    def read(self, snapshot: SnapshotId, position: int, size: int) -> tuple[bytes, int] | None:
        """Bytes of a snapshot and its whole size; None when it is not here (any more). Raises OSError."""
        if snapshot not in self._known:
            return None
        file = self._storage.open(self._path(snapshot))
        return file.read_at(position, size), file.size()

    def receive(self, snapshot: SnapshotId) -> "Receiving":
        """Begin to receive a snapshot from another node. Raises OSError."""
        return Receiving(self, snapshot)


class Receiving:
    """A snapshot that arrives piece by piece."""

    def __init__(self, store: SnapshotStore, snapshot: SnapshotId) -> None:
        self._store = store
        self.snapshot = snapshot
        self._path = store._path(snapshot)
        self._part = self._path + PART_SUFFIX
        self._file = write_beside(store._storage, self._part, b"")
        self.size = 0

    def append(self, data: Buffer) -> None:
        """The next bytes. Raises OSError."""
        self._file.write_at(self.size, data)
        self.size += len(data)

    def finish(self) -> Contents:
        """Check what has arrived and give it its name. Waits for the disk; raises StorageError, OSError."""
        contents = self._store._load(self._part, self.snapshot)
        self._store._finish(self._file, self._part, self._path)
        return contents

    def abandon(self) -> None:
        """Somebody else leads, or the bytes are none. Raises OSError."""
        self._store._storage.remove(self._part)
