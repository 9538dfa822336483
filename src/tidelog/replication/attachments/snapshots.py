"""Snapshots that replace the beginning of a log; see :mod:`tidelog.replication.snapshots`."""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.types import SnapshotId

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver
    from tidelog.replication.messages import Peers, SnapshotAsk, SnapshotGot


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

    def asked(self, ask: "SnapshotAsk", driver: "ReplicaDriver", peers: "Peers") -> None:
        """A follower requests a chunk."""

    def fetch(self, driver: "ReplicaDriver", leader: int, snapshot: SnapshotId, peers: "Peers") -> None:
        """The leader's log starts too late for us: fetch its snapshot."""

    def got(self, got: "SnapshotGot") -> bool:
        """A chunk or a refusal arrived; returns whether it came from the leader that we asked."""
        return False

    def tick(self, now_ms: int) -> None: ...
