"""How a replica whose leader's log begins too late gets a snapshot instead, and goes on behind it.

The leader answers a fetch from before its log start with the name of its newest snapshot. The replica then
asks for its bytes, a piece at a time; each ask names its position, so that lost, doubled and late messages do
no harm. When all are there, the file is checked and made durable *before* the log is dropped: a crash in
between finds the snapshot and drops the log again. A new leader makes the replica begin anew.

Knows neither what is in a snapshot nor where it lies: :class:`Shelf` does.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.errors import ErrorCode, StorageError
from tidelog.log.storage import Buffer
from tidelog.replication.attachments.snapshots import NoSnapshots
from tidelog.replication.messages import PartitionKey, Peers, SnapshotAsk, SnapshotGot
from tidelog.replication.replica import Role
from tidelog.services import Services, ignore
from tidelog.types import SnapshotId

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
TIMEOUT_MS = 700  # Without an answer for so long the ask or its answer is lost: ask again.
TRIES_MAX = 5  # Then ask the leader again what to do: it may have removed the snapshot, or be gone.


class Piecewise(Protocol):
    """A snapshot that is being received."""

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer) -> None: ...

    def finish(self) -> Any:
        """Check it and make it durable; blocks. What is in it."""

    def abandon(self) -> None: ...


class Shelf(Protocol):
    """Where snapshots lie. Everything may raise OSError."""

    @property
    def newest(self) -> SnapshotId | None: ...

    def read(self, snapshot: SnapshotId, position: int, size: int) -> tuple[bytes, int] | None: ...

    def receive(self, snapshot: SnapshotId) -> Piecewise: ...


Received = Callable[[SnapshotId, Any], None]
"""Hears of a snapshot, and what is in it."""


class ReplicaSnapshots(NoSnapshots):
    """The snapshots of one replica."""

    stand_for_start = True

    def __init__(
        self, key: PartitionKey, me: int, shelf: Shelf, services: Services, on_received: Received = ignore
    ) -> None:
        """``on_received``: the snapshot is durable, the log can be dropped."""
        self._key = key
        self._me = me
        self._shelf = shelf
        self._services = services
        self._under_way: Download | None = None
        self._on_received = on_received

    # --- the leader's side ----------------------------------------------------------------------------------

    @property
    def newest(self) -> SnapshotId | None:
        return self._shelf.newest

    def asked(self, ask: SnapshotAsk, driver: "ReplicaDriver", peers: Peers) -> None:
        replica, voter = driver.replica, driver.voter
        error = replica.check_epoch(ask.epoch)
        if error is ErrorCode.NONE and replica.role is not Role.LEADER:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        voter.counted(ask.sender, ask.directory, self._services.uptime_ms())
        peers.send(ask.sender, self.serve(ask, error, *voter.newest_leader()))

    def serve(self, ask: SnapshotAsk, error: ErrorCode, epoch: int, leader: int) -> SnapshotGot:
        """``error``: why we cannot answer as a leader, if so."""
        data, size = b"", 0
        if error is ErrorCode.NONE:
            try:
                found = self._shelf.read(ask.snapshot, ask.position, min(ask.max_bytes, PIECE_BYTES))
            except OSError as failure:
                logger.error("snapshot %s of %s cannot be read: %s", ask.snapshot, self._key, failure)
                error = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                if found is None:
                    error = ErrorCode.SNAPSHOT_NOT_FOUND
                elif not 0 <= ask.position <= found[1]:
                    error = ErrorCode.POSITION_OUT_OF_RANGE
                else:
                    data, size = found
        return SnapshotGot(self._me, self._key, error, epoch, leader, ask.snapshot, size, ask.position, data)

    # --- the follower's side --------------------------------------------------------------------------------

    @property
    def fetching(self) -> bool:
        return self._under_way is not None

    def fetch(self, driver: "ReplicaDriver", leader: int, snapshot: SnapshotId, peers: Peers) -> None:
        replica, directory = driver.replica, driver.voter.directory
        ask = SnapshotAsk(self._me, self._key, replica.epoch, directory, snapshot, 0, PIECE_BYTES)
        if self._under_way is not None:
            return
        try:
            piecewise = self._shelf.receive(ask.snapshot)
        except OSError as error:
            logger.error("snapshot %s of %s cannot be received: %s", ask.snapshot, self._key, error)
            return
        logger.info("%s: fetching snapshot %s from %s", self._key, ask.snapshot, leader)
        download = self._under_way = Download(peers, leader, ask, piecewise)
        download.ask(self._services.uptime_ms())

    def got(self, got: SnapshotGot) -> bool:
        """A piece, or a refusal; whether it came from the leader we asked."""
        download = self._under_way
        if download is None or not download.expects(got):
            return False
        if got.error is not ErrorCode.NONE:
            logger.warning("%s: snapshot %s: %s", self._key, got.snapshot, got.error.name)
            self.cancel()
            return got.error is not ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            done = download.take(got)
        except OSError as error:
            logger.error("snapshot %s of %s cannot be written: %s", got.snapshot, self._key, error)
            self.cancel()
            return True
        if done:
            self._services.offload(download.piecewise.finish, lambda result: self._finished(download, result))
        else:
            download.ask(self._services.uptime_ms())
        return True

    def _finished(self, download: "Download", result: object) -> None:
        if self._under_way is not download:
            return
        if isinstance(result, BaseException):
            reason = result.message if isinstance(result, StorageError) else result
            logger.error("snapshot %s of %s is not usable: %s", download.snapshot, self._key, reason)
            self.cancel()
            return
        self._under_way = None
        self._on_received(download.snapshot, result)

    def tick(self, now_ms: int) -> None:
        download = self._under_way
        if download is None or download.complete or now_ms < download.deadline_ms:
            return
        if download.tries >= TRIES_MAX:
            self.cancel()
        else:
            download.ask(now_ms)

    def leader_changes(self) -> None:
        """Whoever leads now may not have this snapshot. One that is complete is worth having all the same."""
        if self._under_way is not None and not self._under_way.complete:
            self.cancel()

    def cancel(self) -> None:
        """It cannot be had."""
        download, self._under_way = self._under_way, None
        if download is not None:
            try:
                download.piecewise.abandon()
            except OSError as error:
                logger.warning("%s: what is left of snapshot %s: %s", self._key, download.snapshot, error)


class Download:
    """One snapshot from one leader."""

    def __init__(self, peers: Peers, leader: int, ask: SnapshotAsk, piecewise: Piecewise) -> None:
        self._peers = peers
        self._ask = ask
        self.piecewise = piecewise
        self.leader = leader
        self.snapshot = ask.snapshot
        self.complete = False
        self.deadline_ms = 0
        self.tries = 0  # since something arrived

    def ask(self, now_ms: int) -> None:
        self.tries += 1
        self.deadline_ms = now_ms + TIMEOUT_MS
        self._peers.send(self.leader, self._ask._replace(position=self.piecewise.size))

    def expects(self, got: SnapshotGot) -> bool:
        """Only the piece that was asked for: one that came before, or twice, is here already."""
        return (
            not self.complete
            and got.sender == self.leader
            and got.snapshot == self.snapshot
            and got.position == self.piecewise.size
        )

    def take(self, got: SnapshotGot) -> bool:
        """Whether that was all of it. Raises OSError."""
        self.piecewise.append(got.data)
        self.tries = 0
        self.complete = self.piecewise.size >= got.size
        return self.complete
