"""How writes to a log become durable: when a sync is due, and group commits by ticket.

After a failed sync nothing may be reported as durable, so the log fails.
"""

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import StorageError
from tidelog.log.base import ALWAYS, LogBase
from tidelog.log.sync import SyncTicket, unsynced_file


class Syncing(LogBase):
    __slots__ = ()

    def sync_due(self, now_ms: int) -> bool:
        """Whether ``flush.messages`` or ``flush.ms`` asks for a sync, or segments were added or removed."""
        durability = self._durability
        pending = self.end_offset - durability.synced_end_offset
        if pending >= self._flush_messages or durability.names_changed or durability.unsynced_files:
            return True
        return pending > 0 and now_ms - durability.last_sync_ms >= self._flush_ms

    @property
    def is_flushed_by_time(self) -> bool:
        """Whether ``flush.ms`` promises anything."""
        return self._flush_ms < LONG_MAX

    def sync_with(self, path: str) -> None:
        """Make another file in the directory durable with the next sync."""
        self._durability.unsynced_files.append(unsynced_file(self._storage, path))
        self._durability.names_changed = True

    def begin_sync(self) -> SyncTicket:
        """What must be synced so that everything appended so far is durable."""
        self._require_open()
        active = self._open_active()
        try:
            return self._durability.begin(self.end_offset, active, self.epochs)
        except OSError as error:
            raise self._fail("sync", error) from error

    def finish_sync(self, ticket: SyncTicket, now_ms: int) -> None:
        """Apply the result of a ticket that has run. Raises StorageError if it failed; then the log has
        failed: it is unknown what is on disk, so no later sync may promise it.
        """
        try:
            self._durability.finish(ticket, now_ms)
        except StorageError:
            self._size_limit = ALWAYS
            raise

    def _sync_now(self) -> None:
        try:
            self._durability.sync_now(self.end_offset, self._open_active(), self.epochs)
        except StorageError:
            self._size_limit = ALWAYS
            raise

    def sync_now(self) -> None:
        """Everything appended so far is durable when this returns. Raises StorageError."""
        self._require_open()
        self._sync_now()

    @property
    def needs_sync(self) -> bool:
        """Whether a power failure could lose something of the log."""
        if self.closed or self.failure is not None:
            return False
        return not self._durability.is_complete(self.end_offset, self.epochs)
