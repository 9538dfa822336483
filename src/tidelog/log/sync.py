"""Group commit: what one sync must cover, run in a thread while the log goes on.

A ticket holds open files, never the log: the thread that runs it cannot meet a half-changed log, and the log
may roll, truncate or close meanwhile. The log takes the outcome into account when the ticket comes back.
"""

from collections.abc import Sequence

from tidelog.log.storage import File, Storage


class SyncTicket:
    """Everything before ``end_offset`` is durable once this has run without error."""

    __slots__ = ("_directories", "_files", "_storage", "end_offset", "epochs_path",
                 "epochs_version", "error", "waiting")  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        end_offset: int,
        files: Sequence[File],
        directories: Sequence[str],
        waiting: Sequence[File],
    ) -> None:
        self._storage = storage
        self._files = files
        self._directories = directories
        self.end_offset = end_offset  # Exclusive. Lowered when the log is truncated while this runs.
        self.waiting = waiting  # Those of its files that need no other sync once this is done.
        # Version of the epoch history in the file at `epochs_path`, which still has to be renamed.
        self.epochs_version = 0
        self.epochs_path: str | None = None
        self.error: OSError | None = None

    def run(self) -> None:
        """Sync. Safe in any thread; never raises: ``Log.finish_sync`` tells of the error."""
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                self._storage.sync_directory(directory)
        except OSError as error:
            self.error = error
