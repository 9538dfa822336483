"""What all parts of a log share: its fields, its failure, its active segment's file.

The log itself is :class:`tidelog.log.log.Log`; its parts by concern are the classes between this one and that
(:mod:`~tidelog.log.syncing`, :mod:`~tidelog.log.appending`, :mod:`~tidelog.log.reading`,
:mod:`~tidelog.log.shortening`). They share these fields because an append cannot afford an indirection: it
touches a dozen of them in less than a microsecond.
"""

import logging
from collections.abc import Callable, Sequence

from tidelog.errors import StorageError
from tidelog.invariant import invariant
from tidelog.log.durability import Durability
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex
from tidelog.log.opening import Loaded
from tidelog.log.producers import ProducerStates
from tidelog.log.row import SegmentRow
from tidelog.log.segment import Segment
from tidelog.log.settings import LogSettings
from tidelog.log.storage import Buffer, File, Storage

_logger = logging.getLogger(__name__)

ALWAYS = -1  # As a limit: every append takes the slow path.
NO_OFFSET = -1


class LogBase:
    __slots__ = (
        "_active", "_clean_mark", "_config", "_damage", "_dense_mark", "_durability", "_flush_messages",
        "_flush_ms", "_handles",
        "_index_interval_bytes", "_limit", "_offset_limit", "_roll_timestamp", "_row", "_size_limit",
        "_snapshots", "_start_mark", "_storage", "_tail_offset", "_tail_position", "_untouched", "_write",
        "closed", "cuts", "directory", "end_offset", "epochs", "producers", "removed_bytes", "size_bytes",
        "start_is_kept", "start_offset",
    )  # fmt: skip

    def __init__(
        self, storage: Storage, handles: HandleCache, directory: str, config: LogSettings, loaded: Loaded,
        durability: Durability,
    ) -> None:  # fmt: skip
        self._storage = storage
        self._handles = handles
        self._durability = durability
        self.directory = directory
        self.epochs = loaded.epochs
        self._start_mark = loaded.start_mark
        self._clean_mark = loaded.clean_mark
        self._dense_mark = loaded.dense_mark
        self.cuts = 0  # How often the log was truncated or restarted: offsets may name other records since.
        self._damage = loaded.damage
        self._snapshots = loaded.snapshots
        self.producers: ProducerStates = loaded.snapshots.states
        self.start_offset = loaded.start_offset  # First readable.
        self.start_is_kept = True  # Whether a killed process begins there again.
        self.end_offset = loaded.end_offset  # Exclusive: the next to assign.
        self.closed = False
        self._untouched = loaded.untouched  # Whether all files are as the last process left them.
        self._row = SegmentRow(loaded.segments)
        self.size_bytes = self._row.size_bytes
        self.removed_bytes = 0  # Since it was opened; with size_bytes: all that was ever in it.
        self._segments_changed()
        self.config = config

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first; the last one is active."""
        return self._row.segments

    def refuse_writes(self, reason: str) -> StorageError:
        """Until the log is reopened. This failure is reported from now on."""
        return self._durability.refuse(reason)

    @property
    def failure(self) -> StorageError | None:
        """Why the log accepts no writes."""
        return self._durability.failure

    @property
    def sync_failed(self) -> bool:
        """Whether what was written and not synced may be gone when this process ends: the system considers it
        written, and may read it again from the disk.
        """
        return self._durability.sync_failed

    @property
    def damage(self) -> str:
        """What was missing when the log was opened, as long as the controllers may not know; else empty."""
        return self._damage.reason

    def damage_is_known(self) -> None:
        """The controllers know it from now on."""
        try:
            self._damage.clear()
        except OSError as error:
            _logger.warning("%s: cannot remove the damage file: %s", self.directory, error)

    @property
    def synced_end_offset(self) -> int:
        """Exclusive: everything below survives a power failure."""
        return self._durability.synced_end_offset

    @property
    def snapshot_offsets(self) -> Sequence[int]:
        """Of the producer snapshots. After a truncation or crash the state may be rebuilt from each."""
        return self._snapshots.offsets

    @property
    def clean_offset(self) -> int:
        """Exclusive: everything below was compacted. 0 if unknown."""
        return max(self._clean_mark.offset, 0)

    @property
    def is_compacted(self) -> bool:
        """Whether records may have been removed because of newer ones with the same key."""
        return "compact" in self._config.cleanup_policy or self._clean_mark.is_set

    @property
    def dense_from(self) -> int:
        """No offset is missing between two batches after it."""
        return self._dense_mark.dense_from

    @property
    def recovery_point(self) -> int:
        """Where recovery would start after a crash; the data directory checkpoints it."""
        return self._durability.recovery_point

    @property
    def checkpointed_recovery_point(self) -> int:
        """The recovery point of this log in the data directory's checkpoint."""
        return self._durability.checkpointed_recovery_point

    @checkpointed_recovery_point.setter
    def checkpointed_recovery_point(self, offset: int) -> None:
        self._durability.checkpointed_recovery_point = offset

    @property
    def config(self) -> LogSettings:
        return self._config

    @config.setter
    def config(self, config: LogSettings) -> None:
        self._config = config
        self._index_interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self._active.indexes.resize(config.segment_index_bytes)
        self._size_limit = ALWAYS  # The next append computes the limits.

    # -- failing -----------------------------------------------------------------------

    def _fail(self, action: str, error: OSError) -> StorageError:
        self._size_limit = ALWAYS
        return self._durability.fail(action, error)

    def _require_open(self) -> None:
        if self.closed:
            raise StorageError(f"{self.directory} is closed")  # Its partition was deleted a moment ago.
        if self.failure is not None:
            raise StorageError(self.failure.message)

    def _require_working(self) -> None:
        self._require_open()
        if not self._active.active:
            raise StorageError(f"{self.directory} is closing")

    # -- the active segment ------------------------------------------------------------

    def _open_active(self) -> File:
        try:
            return self._active.file()
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise self._fail("open the newest segment", error) from error  # It will not come back.
            # Nothing is lost: the next append may find enough free file descriptors.
            raise StorageError(f"cannot open the newest segment of {self.directory}: {error}") from error

    def _segments_changed(self) -> None:
        """Forget everything derived from the segments as they were."""
        self._active = self._row.active
        self._count_bytes()
        self._tail_offset = self._tail_position = NO_OFFSET
        self._limit = (NO_OFFSET, self._active, 0)
        self._write: Callable[[int, Buffer], None] = _not_prepared
        self._size_limit = self._roll_timestamp = self._offset_limit = ALWAYS

    def _rebuild_aborted(self, number: int, reason: DamagedIndex) -> None:
        """From the batches."""
        segments = self._row.segments
        _logger.warning("rebuilding %s: %s", segments[number].aborted.path, reason)
        self._durability.names_changed = True  # If it came back, the old file would lack what is added later.
        segments[number].aborted.replace(self._snapshots.aborted_in(segments, number, self._row.first_offset))

    def _count_bytes(self) -> None:
        size = self._row.size_bytes
        self.removed_bytes += self.size_bytes - size
        self.size_bytes = size


def _not_prepared(position: int, data: Buffer) -> None:
    invariant(False, "an append must prepare the active segment first", position)
