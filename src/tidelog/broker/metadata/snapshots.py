"""Writes snapshots of the metadata, deletes the start of the log, and installs snapshots from the leader.

The image is immutable, so a thread can write it while further records are applied. The log is kept from the
end of the second-newest snapshot on. If the newest snapshot is damaged, the second-newest and the log after
it contain the same metadata. A node that is only a little behind can fetch records instead of a snapshot.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.metadata.voters import MetadataVoters
from tidelog.controller.image import ClusterImage
from tidelog.controller.snapshot_file import Contents
from tidelog.controller.snapshot_store import KEPT, SnapshotStore
from tidelog.errors import StorageError
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.voters import decode_set, encode_set
from tidelog.services import Services, Timer
from tidelog.types import SnapshotId

logger = logging.getLogger(__name__)

RETRY_MS = 60_000  # after a snapshot could not be written


class Applied(NamedTuple):
    image: ClusterImage
    end_offset: int  # Exclusive: the image includes everything before.


class SnapshotPorts(NamedTuple):
    """Callbacks of the owner of the image."""

    applied: Callable[[], Applied]
    on_installed: Callable[[ClusterImage, int], None]  # (image, end offset) of a snapshot from the leader


class MetadataSnapshots:
    def __init__(
        self,
        driver: ReplicaDriver,
        store: SnapshotStore,
        voters: MetadataVoters,
        services: Services,
        bytes_between: int,
        interval_ms: int,
        ports: SnapshotPorts,
    ) -> None:
        self._driver = driver
        self._store = store
        self._voters = voters
        self._services = services
        self._bytes_between = bytes_between
        self._interval_ms = interval_ms  # 0: by size only
        self._bytes = 0  # applied since the last snapshot
        self._writing = False
        self._timer: Timer | None = None
        self._failed = False  # The last snapshot could not be written; the timer retries.
        self._ports = ports

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # --- writing --------------------------------------------------------------------------------------------

    def applied(self, size: int) -> None:
        """``size`` more bytes of the log were applied to the image."""
        self._bytes += size
        due = self._bytes >= self._bytes_between or self._services.perturb("early snapshot")
        if due and not self._failed:
            self._write()
        elif self._interval_ms:
            self._wait(self._interval_ms)

    def _wait(self, delay_ms: int) -> None:
        if self._timer is None:
            self._timer = self._services.later(delay_ms, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        if self._bytes:
            self._write()

    def _write(self) -> None:
        log = self._driver.log
        image, end_offset = self._ports.applied()
        if self._writing or log.failure is not None or end_offset <= log.start_offset:
            return
        snapshot = SnapshotId(end_offset, log.epochs.epoch_at(end_offset - 1))
        voters = encode_set(self._voters.history.before(end_offset))
        contents = Contents(snapshot, image, voters)
        self._writing = True
        self._bytes = 0
        work = self._store.writing(contents, self._services.now_ms())
        self._services.offload(work, lambda result: self._written(snapshot, result))

    def _written(self, snapshot: SnapshotId, result: object) -> None:
        self._writing = False
        self._failed = isinstance(result, BaseException)
        if self._failed:
            # The log still has all records. Only its disk space is not freed.
            logger.error("snapshot %s of the metadata cannot be written: %s", snapshot, result)
            self._bytes += 1
            self._wait(RETRY_MS)
            return
        self._store.written(snapshot)
        try:
            self._drop_beginning()
        except (StorageError, OSError) as error:
            logger.error("the log before snapshot %s cannot be deleted: %s", snapshot, error)

    def _drop_beginning(self) -> None:
        """Raises StorageError, OSError."""
        log, now_ms = self._driver.log, self._services.now_ms()
        self._store.remove_old()
        oldest = self._store.oldest
        if self._store.count >= KEPT and oldest is not None and oldest.end_offset > log.start_offset:
            log.advance_start(oldest.end_offset)
            self._driver.replica.set_base_epoch(oldest.epoch)
            self._voters.history.forget_before(oldest.end_offset)
        log.roll(now_ms)  # So that the next snapshot can delete whole segments.
        log.remove_deleted(now_ms)
        log.enforce_retention(now_ms, self._driver.replica.high_watermark)

    # --- receiving ------------------------------------------------------------------------------------------

    def received(self, snapshot: SnapshotId, contents: Contents) -> None:
        """A snapshot of the leader was received and is on disk. It replaces this node's log."""
        _, applied_offset = self._ports.applied()
        self._store.written(snapshot)
        if snapshot.end_offset >= applied_offset and self._driver.install(snapshot):
            if contents.voters:
                self._voters.restarted(decode_set(contents.voters))
            self._bytes = 0
            self._ports.on_installed(contents.image, snapshot.end_offset)
            try:
                self._store.remove_old()
            except OSError as error:
                logger.warning("old snapshots of the metadata cannot be removed: %s", error)
        self._driver.resume_fetching()
