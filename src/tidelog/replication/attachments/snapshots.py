"""Snapshots that stand for the beginning of a log; see :mod:`tidelog.replication.snapshots`."""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.types import SnapshotId

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver
    from tidelog.replication.messages import Peers, SnapshotAsk, SnapshotGot


class NoSnapshots(Attachment):
    """What is before the log's start is gone."""

    __slots__ = ()

    slot: ClassVar[str] = "snapshots"
    stand_for_start: ClassVar[bool] = False  # Whether there is one for what came before the log's start.

    @property
    def newest(self) -> SnapshotId | None:
        return None

    @property
    def fetching(self) -> bool:
        """While it is, the replica asks for no records."""
        return False

    def asked(self, ask: "SnapshotAsk", driver: "ReplicaDriver", peers: "Peers") -> None:
        """A follower wants a piece."""

    def fetch(self, driver: "ReplicaDriver", leader: int, snapshot: SnapshotId, peers: "Peers") -> None:
        """The leader's log begins too late for us."""

    def got(self, got: "SnapshotGot") -> bool:
        """A piece, or a refusal; whether it came from the leader we asked."""
        return False

    def tick(self, now_ms: int) -> None: ...
