"""One replica's log on disk. (Signatures first; the bodies follow.)"""

from collections.abc import Sequence

from tidelog.errors import StorageError
from tidelog.log.settings import LogSettings
from tidelog.log.storage import Region, Storage


class SyncTicket:
    """One group commit: what to sync so that everything before ``end_offset`` is durable."""

    end_offset: int

    def run(self) -> None:
        """Sync. Touches no state of the log: call it in any thread. Never raises; ``finish_sync`` does."""
        raise NotImplementedError


class Segment:
    base_offset: int
    size: int  # Bytes of whole batches.


class EpochCache:
    latest: int  # NO_EPOCH when empty.

    def assign(self, epoch: int, start_offset: int) -> None:
        raise NotImplementedError

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= ``epoch``, its exclusive end offset); (-1, -1) when unknown."""
        raise NotImplementedError

    def epoch_at(self, offset: int) -> int:
        raise NotImplementedError


class Log:
    start_offset: int  # First readable.
    end_offset: int  # Exclusive: the next offset to assign.
    synced_end_offset: int  # Exclusive: everything below survives a power failure.
    size_bytes: int
    failure: StorageError | None
    epochs: EpochCache
    config: LogSettings
    segments: Sequence[Segment]  # Oldest first; the last one is active.

    @classmethod
    def open(
        cls, storage: Storage, directory: str, config: LogSettings, *, clean: bool, recovery_point: int,
        log_start_offset: int, now_ms: int,
    ) -> "Log":  # fmt: skip
        raise NotImplementedError

    def append(
        self, batch: memoryview, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int
    ) -> None:
        raise NotImplementedError

    def append_batches(self, data: memoryview, now_ms: int) -> int:
        """Append whole batches whose offsets are assigned, ignore a partial one at the end; new end offset."""
        raise NotImplementedError

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool) -> Region:
        raise NotImplementedError

    def find_timestamp(self, timestamp_ms: int, end_offset: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after that time."""
        raise NotImplementedError

    def find_max_timestamp(self, end_offset: int) -> tuple[int, int, int] | None:
        raise NotImplementedError

    def sync_due(self, now_ms: int) -> bool:
        raise NotImplementedError

    def begin_sync(self) -> SyncTicket:
        raise NotImplementedError

    def finish_sync(self, ticket: SyncTicket, now_ms: int) -> None:
        """Raises StorageError (and fails the log) when the sync failed."""
        raise NotImplementedError

    def truncate_to(self, offset: int) -> None:
        raise NotImplementedError

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at ``offset``: a follower whose leader no longer has what comes next."""
        raise NotImplementedError

    def advance_start(self, offset: int) -> None:
        raise NotImplementedError

    def roll(self, now_ms: int) -> None:
        raise NotImplementedError

    def enforce_retention(self, now_ms: int, high_watermark: int) -> list[Segment]:
        raise NotImplementedError

    def replace_segments(self, old: Sequence[Segment], new: Segment, now_ms: int) -> None:
        raise NotImplementedError

    def close(self) -> bool:
        """Sync and close; False when the log had failed and needs recovery when opened again."""
        raise NotImplementedError
