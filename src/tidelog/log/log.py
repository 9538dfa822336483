"""One replica's log: an ordered sequence of segments, the newest of which is active.

Owns what is readable (``start_offset`` to ``end_offset``), when a segment is full, how disk failures are
handled, and what is durable. Knows nothing of replication, commits, or the clock: offsets,
epochs and times come in as arguments. Used from one thread, except for :meth:`SyncTicket.run`.

================================  ==============================================================
:mod:`~tidelog.log.appending`     one write per batch; rolling
:mod:`~tidelog.log.reading`       the position of an offset or a time; nothing is copied
:mod:`~tidelog.log.shortening`    truncation, DeleteRecords, retention, the swap of compaction
:mod:`~tidelog.log.syncing`       group commit
:mod:`~tidelog.log.base`         the fields they share, and failures
here                              opening and closing
================================  ==============================================================

**Failures.** If the disk fails a write or a sync, the log accepts no writes until it is reopened;
reads continue.
"""

import logging

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.damage import Evidence
from tidelog.log.durability import Durability
from tidelog.log.handles import HandleCache
from tidelog.log.opening import Opening
from tidelog.log.reading import Reading
from tidelog.log.settings import LogSettings
from tidelog.log.shortening import Shortening
from tidelog.log.storage import Storage

_logger = logging.getLogger(__name__)


class Log(Reading, Shortening):
    __slots__ = ()

    @classmethod
    def open(
        cls, storage: Storage, directory: str, config: LogSettings, *, clean: bool, recovery_point: int = 0,
        log_start_offset: int = 0, now_ms: int, handles: HandleCache | None = None,
        high_watermark: int = 0, same_boot: bool = False, existed: bool = False,
    ) -> "Log":  # fmt: skip
        """Open the log in ``directory``, or create it. ``clean``: it was closed cleanly, nothing is checked.

        ``recovery_point``, ``high_watermark``: from the checkpoints. ``same_boot``: the machine has been on
        since the log was last written. ``existed``: its directory existed then.
        """
        if handles is None:
            handles = HandleCache()
        evidence = Evidence(recovery_point, high_watermark, clean or same_boot, existed)
        try:
            loaded = Opening(storage, handles, directory, config, now_ms).load(
                clean=clean, evidence=evidence, log_start_offset=log_start_offset
            )
        except (OSError, CorruptBatch) as error:
            raise StorageError(f"cannot open the log in {directory}: {error}") from error
        if clean:
            recovery_point = loaded.end_offset
        durability = Durability(storage, directory, loaded.end_offset, recovery_point, now_ms)
        durability.unsynced_files = loaded.unsynced
        # The last process may have been killed before it synced the names of new files.
        durability.names_changed = loaded.names_changed or not clean
        durability.parent_changed = loaded.created or not clean
        return cls(storage, handles, directory, config, loaded, durability)

    def begin_close(self) -> None:
        """Accept no more writes and complete the indexes. Syncs may follow, in threads, before ``close``."""
        if self.closed or self.failure is not None or not self._active.active:
            return
        durability = self._durability
        if self.end_offset > self._row.first_offset:
            self._keep_producers(self._snapshots.try_to_write(self.end_offset))
        if self._untouched and durability.is_complete(self.end_offset, self.epochs):
            return
        try:
            durability.unsynced_files.append(self._active.make_inactive())
        except OSError as error:
            self._fail("close", error)
        self._segments_changed()

    def close(self) -> bool:
        """Make everything durable and close all files. False if the log had failed: it must be checked when
        it is reopened.
        """
        self._durability.hear_of_failures()
        self.begin_close()
        complete = True
        if self.needs_sync:
            try:
                self._sync_now()
            except OSError as error:
                self._fail("close", error)
            except StorageError as error:
                _logger.error("%s was not closed cleanly: %s", self.directory, error.message)
                complete = False
        self.abandon()
        return complete and self.failure is None

    def abandon(self) -> None:
        """Close all files without another write: the log is about to be deleted, or has failed."""
        self.closed = True
        self._segments_changed()
        self._durability.abandon()
        self._row.release_all()
