"""What of a log survives a power failure, and how it gets there.

Owns the two offsets that promise something (``synced_end_offset``, ``recovery_point``), the files and names
that wait for a sync, and the epoch file. Knows nothing of segments.

A sync is a ticket (:class:`tidelog.log.sync.SyncTicket`) that is begun here, run in any thread, and finished
here. The epoch file is written beside the old one when a ticket begins and renamed when it is finished; the
recovery point advances only when that name is durable, too, because recovery trusts the file for everything
below.
"""

import logging

from tidelog.errors import StorageError
from tidelog.log import layout
from tidelog.log.epochs import EpochCache
from tidelog.log.files import parent_of, write_beside
from tidelog.log.storage import File, Storage
from tidelog.log.sync import SyncTicket, Unsynced

_logger = logging.getLogger(__name__)


class Durability:
    __slots__ = (
        "_directory", "_epochs_written", "_storage", "_tickets", "checkpointed_recovery_point", "failure",
        "last_sync_ms", "names_changed", "parent_changed", "recovery_point", "sync_failed",
        "synced_end_offset", "unsynced_files",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, directory: str, end_offset: int, recovery_point: int, now_ms: int
    ) -> None:
        self._storage = storage
        self._directory = directory
        # Exclusive: everything below survives a power failure.
        self.synced_end_offset = min(recovery_point, end_offset)
        # Where recovery would start. <= synced_end_offset; the epochs of everything below are on disk.
        self.recovery_point = self.synced_end_offset
        # The recovery point in the data directory's checkpoint; it lags, and after a truncation it is too
        # high.
        self.checkpointed_recovery_point = recovery_point
        self.unsynced_files: list[Unsynced] = []  # Inactive segments and their other files.
        self.names_changed = False  # Whether the directory must be synced,
        self.parent_changed = False  # and the one it is in.
        self.last_sync_ms = now_ms
        self.failure: StorageError | None = None
        self.sync_failed = False  # What was written and not synced may be gone when the process ends.
        self._epochs_written = 0  # Version of the epoch history in the file.
        self._tickets: list[SyncTicket] = []

    def fail(self, action: str, error: OSError) -> StorageError:
        """No more writes. The first failure is the one that is reported."""
        failure = StorageError(f"cannot {action} in {self._directory}: {error}")
        failure.__cause__ = error
        if self.failure is None:
            self.failure = failure
            _logger.error("%s; the log accepts no writes until it is reopened", failure.message)
        return failure

    def refuse(self, reason: str) -> StorageError:
        """No more writes, although the disk would accept them. The caller reports the reason."""
        if self.failure is None:
            self.failure = StorageError(reason)
        return self.failure

    def mended(self) -> None:
        """What the log was refused for was cut off."""
        self.failure = None

    def lower(self, end_offset: int) -> None:
        """The log now ends at ``end_offset``: what is written there again is new, whatever was synced."""
        self.synced_end_offset = min(self.synced_end_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        for ticket in self._tickets:
            ticket.end_offset = min(ticket.end_offset, end_offset)

    def restart(self) -> None:
        """The log is empty and continues at another offset. Until that is synced, a power failure brings back
        the old content: then it ends where it did before.
        """
        self.lower(0)
        self.unsynced_files.clear()

    def begin(self, end_offset: int, active: File, epochs: EpochCache) -> SyncTicket:
        """A ticket for everything before ``end_offset``. May raise ``OSError``."""
        files = self._open_unsynced()
        if active not in files:
            files.append(active)
        # Names that another ticket covers may not be on disk before this one is.
        directories = list(dict.fromkeys(name for ticket in self._tickets for name in ticket.directories))
        changed = [(self._directory, self.names_changed), (parent_of(self._directory), self.parent_changed)]
        directories += [name for name, is_new in changed if is_new and name not in directories]
        ticket = SyncTicket(self._storage, end_offset, files, directories, self.unsynced_files[:])
        ticket.covers = self._tickets[:]
        if epochs.version != self._epochs_written:
            ticket.epochs_version = epochs.version
            ticket.epochs_path = self._epochs_path(f".{epochs.version}{layout.TEMPORARY_SUFFIX}")
            files.append(write_beside(self._storage, ticket.epochs_path, epochs.encode()))
        self.names_changed = self.parent_changed = False
        self._tickets.append(ticket)
        return ticket

    def _open_unsynced(self) -> list[File]:
        try:
            return [file for unsynced in self.unsynced_files for file in unsynced.open()]
        except OSError as error:
            # Nothing is lost: the next sync may find enough free file descriptors.
            raise StorageError(f"cannot begin to sync {self._directory}: {error}") from error

    def finish(self, ticket: SyncTicket, now_ms: int) -> None:
        """Apply a ticket's result; raises StorageError if nothing may be promised."""
        if ticket not in self._tickets:
            return  # The log was closed meanwhile and has synced by itself.
        self._tickets.remove(ticket)
        if ticket.error is not None:
            raise self._fail_to_sync(ticket.error)
        self.hear_of_failures()
        if self.failure is not None:
            raise StorageError(self.failure.message)
        for covered in ticket.covers:
            covered.owes_names = False
        self.unsynced_files = [
            unsynced for unsynced in self.unsynced_files if unsynced not in ticket.unsynced_files
        ]
        self.last_sync_ms = now_ms
        self.synced_end_offset = max(self.synced_end_offset, ticket.end_offset)
        if ticket.epochs_path is None:
            self.recovery_point = max(self.recovery_point, ticket.end_offset)
        elif ticket.epochs_version > self._epochs_written:
            self._take_over_epochs(ticket.epochs_path, ticket.epochs_version)

    def hear_of_failures(self) -> None:
        """A sync that failed in its thread counts from now on, even if its result was not applied yet: the
        system reports an error only once, so the next sync of the same file may succeed.
        """
        for ticket in self._tickets:
            if ticket.error is not None:
                self._fail_to_sync(ticket.error)

    def _fail_to_sync(self, error: OSError) -> StorageError:
        self.sync_failed = True
        return self.fail("sync", error)

    def _take_over_epochs(self, path: str, version: int) -> None:
        try:
            self._storage.rename(path, self._epochs_path(""))
        except OSError as error:
            raise self.fail("write the leader epochs", error) from error
        self._epochs_written = version
        self.names_changed = True  # The recovery point advances with the next ticket.

    def _epochs_path(self, suffix: str) -> str:
        return f"{self._directory}/{layout.EPOCHS_FILE}{suffix}"

    def is_complete(self, end_offset: int, epochs: EpochCache) -> bool:
        """Whether everything before ``end_offset`` is durable, and recovery would have nothing to do. Names
        that a running ticket covers are not on disk yet.
        """
        return (
            self.recovery_point >= end_offset
            and not self.unsynced_files
            and not self.names_changed
            and not any(ticket.owes_names for ticket in self._tickets)
            and epochs.version == self._epochs_written
        )

    def sync_now(self, end_offset: int, active: File, epochs: EpochCache) -> None:
        """Sync synchronously until nothing is left. Raises OSError or StorageError."""
        self.hear_of_failures()
        if self.failure is not None:
            raise StorageError(self.failure.message)
        while not self.is_complete(end_offset, epochs):
            ticket = self.begin(end_offset, active, epochs)
            ticket.run()
            self.finish(ticket, self.last_sync_ms)

    def abandon(self) -> None:
        """Results of running syncs are ignored from now on."""
        self._tickets.clear()
        self.unsynced_files.clear()
