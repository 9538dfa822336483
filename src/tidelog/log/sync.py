"""Group commit: what one sync must cover, run in a thread while the log is in use.

A ticket holds open files, never the log: the thread that runs it cannot see a half-changed log, and the log
may roll, truncate or close meanwhile. The log applies the result when the ticket returns.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from tidelog.log.storage import File, Storage


class Unsynced:
    """Files that the next sync must cover. They are opened when it begins: a thousand waiting logs must not
    hold thousands of descriptors.

    Two are never equal. Files that change again during a sync are a new one, which stays when the old one is
    done.
    """

    __slots__ = ("open",)

    def __init__(self, open_files: Callable[[], list[File]]) -> None:
        self.open = open_files  # Skips deleted files: they are not needed.


def unsynced_file(storage: Storage, path: str) -> Unsynced:
    return Unsynced(lambda: open_existing(storage, [path]))


def open_existing(storage: Storage, paths: Sequence[str]) -> list[File]:
    files: list[File] = []
    for path in paths:
        with suppress(FileNotFoundError):
            files.append(storage.open(path))
    return files


class SyncTicket:
    """Everything before ``end_offset`` is durable once this has run without error."""

    __slots__ = ("_files", "_storage", "covers", "directories", "end_offset", "epochs_path",
                 "epochs_version", "error", "owes_names", "unsynced_files")  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        end_offset: int,
        files: Sequence[File],
        directories: Sequence[str],
        unsynced_files: Sequence[Unsynced],
    ) -> None:
        self._storage = storage
        self._files = files
        self.directories = directories  # Whose names are synced, too.
        # Whether no other ticket has synced these names meanwhile: until this is done they may not be on
        # disk.
        self.owes_names = bool(directories)
        self.covers: list[SyncTicket] = []  # Those whose names this one syncs, too.
        self.end_offset = end_offset  # Exclusive. Lowered when the log is truncated while this runs.
        self.unsynced_files = unsynced_files  # Need no other sync once this is done.
        # Version of the epoch history in the file at `epochs_path`, which still has to be renamed.
        self.epochs_version = 0
        self.epochs_path: str | None = None
        self.error: OSError | None = None

    def run(self) -> None:
        """Sync. Safe in any thread; never raises: ``Log.finish_sync`` reports the error."""
        try:
            for file in self._files:
                file.sync()
            for directory in self.directories:
                self._storage.sync_directory(directory)
        except OSError as error:
            self.error = error
