"""How a replica fetches a snapshot when its leader's log starts too late, and continues after it.

The leader answers a fetch from before its log start with the id of its newest snapshot. The replica then
requests the snapshot chunk by chunk. Each request names its position, so lost, duplicated and late messages
do no harm. When the file is complete, it is checked and synced *before* the log is dropped: after a crash in
between, the snapshot is found and the log dropped again. If the leader changes, the replica starts over.

Neither the contents of a snapshot nor its location are known here, only to :class:`Shelf`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tidelog.errors import ErrorCode, StorageError
from tidelog.log.storage import Buffer
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.messages import PartitionKey, Peers, SnapshotAsk, SnapshotGot
from tidelog.replication.replica import Role
from tidelog.services import Services, ignore
from tidelog.types import SnapshotId

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
TIMEOUT_MS = 700  # Without a response for this long the request or its response is lost: send it again.
TRIES_MAX = 5  # After that, fetch from the leader again: it may have removed the snapshot, or be gone.


class Piecewise(Protocol):
    """A snapshot that is being received."""

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer) -> None: ...

    def finish(self) -> Any:
        """Check and sync it, and return its contents. Blocks."""

    def abandon(self) -> None: ...


class Shelf(Protocol):
    """Stores snapshots. Everything may raise OSError."""

    @property
    def newest(self) -> SnapshotId | None: ...

    def read(self, snapshot: SnapshotId, position: int, size: int) -> tuple[bytes, int] | None: ...

    def receive(self, snapshot: SnapshotId) -> Piecewise: ...


Received = Callable[[SnapshotId, Any], None]
"""Receives a snapshot's id and its contents."""


class NoSnapshots(Attachment):
    """Records before the log start are gone."""

    __slots__ = ()

    slot: ClassVar[str] = "snapshots"
    stand_for_start: ClassVar[bool] = False  # whether a snapshot replaces what came before the log start

    @property
    def newest(self) -> SnapshotId | None:
        return None

    @property
    def fetching(self) -> bool:
        """Whether a snapshot is being fetched. The replica fetches no records then."""
        return False

    def asked(self, ask: SnapshotAsk, driver: "ReplicaDriver", peers: Peers) -> None:
        """A follower requests a chunk."""

    def fetch(self, driver: "ReplicaDriver", leader: int, snapshot: SnapshotId, peers: Peers) -> None:
        """The leader's log starts too late for us: fetch its snapshot."""

    def got(self, got: SnapshotGot) -> bool:
        """A chunk or a refusal arrived; returns whether it came from the leader that we asked."""
        return False

    def tick(self, now_ms: int) -> None: ...


class ReplicaSnapshots(NoSnapshots):
    """The snapshots of one replica."""

    stand_for_start = True

    def __init__(
        self, key: PartitionKey, me: int, shelf: Shelf, services: Services, on_received: Received = ignore
    ) -> None:
        """``on_received``: called when the snapshot is durable, so that the log can be dropped."""
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
        """``error``: why we cannot respond as the leader, or NONE."""
        data, size = b"", 0
        if error is ErrorCode.NONE:
            try:
                found = self._shelf.read(ask.snapshot, ask.position, min(ask.max_bytes, PIECE_BYTES))
            except OSError as failure:
                logger.error("cannot read snapshot %s of %s: %s", ask.snapshot, self._key, failure)
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
            logger.error("cannot receive snapshot %s of %s: %s", ask.snapshot, self._key, error)
            return
        logger.info("%s: fetching snapshot %s from %s", self._key, ask.snapshot, leader)
        download = self._under_way = Download(peers, leader, ask, piecewise)
        download.ask(self._services.uptime_ms())

    def got(self, got: SnapshotGot) -> bool:
        """A chunk or a refusal arrived; returns whether it came from the leader that we asked."""
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
            logger.error("cannot write snapshot %s of %s: %s", got.snapshot, self._key, error)
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
        """The new leader may not have this snapshot. A complete one is kept."""
        if self._under_way is not None and not self._under_way.complete:
            self.cancel()

    def cancel(self) -> None:
        """Give up the download."""
        download, self._under_way = self._under_way, None
        if download is not None:
            try:
                download.piecewise.abandon()
            except OSError as error:
                logger.warning("%s: cannot remove snapshot part %s: %s", self._key, download.snapshot, error)


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
        self.tries = 0  # requests since the last chunk

    def ask(self, now_ms: int) -> None:
        self.tries += 1
        self.deadline_ms = now_ms + TIMEOUT_MS
        self._peers.send(self.leader, self._ask._replace(position=self.piecewise.size))

    def expects(self, got: SnapshotGot) -> bool:
        """Only the requested chunk: an earlier or duplicate one is stored already."""
        return (
            not self.complete
            and got.sender == self.leader
            and got.snapshot == self.snapshot
            and got.position == self.piecewise.size
        )

    def take(self, got: SnapshotGot) -> bool:
        """Store a chunk; returns whether it was the last one. Raises OSError."""
        self.piecewise.append(got.data)
        self.tries = 0
        self.complete = self.piecewise.size >= got.size
        return self.complete
