"""The snapshots beside the metadata log: writing them, finding the newest intact one, and sending them.

A snapshot's file gets its final name only when it is complete and synced: it is written under another name,
synced and renamed, and the directory is synced. So after a crash it exists completely or not at all. The same
applies to a snapshot that is received from another node.

Only files are handled here: :mod:`~tidelog.controller.snapshot_file` has their contents, and the caller
decides when.
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
# The newest and the one before it: the log reaches back to the older one, in case the newest is damaged.
KEPT = 2


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
        """The newest intact snapshot. Damaged ones are logged and skipped; their files are kept."""
        for snapshot in reversed(list(self._known)):
            try:
                contents = self._load(self._path(snapshot), snapshot)
            except (StorageError, OSError) as error:
                logger.error("skipping %s: %s", self._path(snapshot), error)
                self._known.remove(snapshot)
                continue
            return contents
        return None

    def _load(self, path: str, expected: SnapshotId) -> Contents:
        contents = snapshot_file.decode(read_whole(self._storage, path) or b"")
        if contents.snapshot != expected:
            raise StorageError(f"it contains snapshot {contents.snapshot}, which does not match its name")
        return contents

    # --- writing --------------------------------------------------------------------------------------------

    def writing(self, contents: Contents, now_ms: int) -> Callable[[], None]:
        """A function that writes a snapshot, to be run in a thread: the image is immutable. It raises
        OSError.
        """
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
        """It is on disk and counts from now on."""
        if snapshot not in self._known:
            self._known = sorted([*self._known, snapshot])

    def remove_old(self) -> None:
        """Remove all but the newest ones. Raises OSError."""
        while len(self._known) > KEPT:
            self._storage.remove(self._path(self._known[0]))
            del self._known[0]

    # --- sending and receiving ------------------------------------------------------------------------------

    def read(self, snapshot: SnapshotId, position: int, size: int) -> tuple[bytes, int] | None:
        """Bytes of a snapshot and its total size; None if it is not (or no longer) here. Raises OSError."""
        if snapshot not in self._known:
            return None
        file = self._storage.open(self._path(snapshot))
        return file.read_at(position, size), file.size()

    def receive(self, snapshot: SnapshotId) -> "Receiving":
        """Begin to receive a snapshot from another node. Raises OSError."""
        return Receiving(self, snapshot)


class Receiving:
    """A snapshot that arrives in chunks."""

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
        """Check the received file and give it its final name. Blocks; raises StorageError, OSError."""
        contents = self._store._load(self._part, self.snapshot)
        self._store._finish(self._file, self._part, self._path)
        return contents

    def abandon(self) -> None:
        """Remove the incomplete file: the leader has changed, or the file is damaged. Raises OSError."""
        self._store._storage.remove(self._part)
