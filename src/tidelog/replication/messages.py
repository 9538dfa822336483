"""What replicas say to each other. One way each: an answer is a message of its own, and any of them may be
lost, doubled or late. On the wire they are Kafka's own requests (Fetch, Vote, BeginQuorumEpoch,
EndQuorumEpoch, FetchSnapshot); a simulated network carries them as they are.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.log.storage import Buffer
from tidelog.replication.votes import VoteAsk, VoteGot
from tidelog.types import SnapshotId

PartitionKey = Hashable
"""Names a partition for good: topic id and number."""


OtherDirectories = tuple[tuple[PartitionKey, UUID], ...]
"""Few, so that they are searched."""

NO_OTHERS: OtherDirectories = ()


class FetchItem(NamedTuple):
    """One partition a follower wants to go on with."""

    key: PartitionKey
    epoch: int
    offset: int
    last_epoch: int  # of the record before ``offset``
    log_start_offset: int
    high_watermark: int  # as far as the follower knows; a leader that knows more answers at once


class FetchAsk(NamedTuple):
    """What a follower wants from one leader: only what is new since the ask it builds on.

    The leader remembers the rest: a partition that was asked for and not answered yet is still wanted. So a
    thousand quiet partitions travel once, and not with every ask.
    """

    sender: int
    broker_epoch: int  # of the sender's registration; what an older run of it says does not count
    generation: int  # rises with every ask
    since: int  # generation of the ask this one builds on; 0: this one is complete and replaces all before
    items: list[FetchItem]
    forgotten: list[PartitionKey]  # no longer followed here
    max_wait_ms: int
    max_bytes: int
    directory: UUID | None = None  # the sender's disk: where replicas vote, a voter counts only with its own
    # Of the newest answer that the sender had when it asked: who still follows then did so when that was
    # given. 0: none; -1: not told (by brokers of an earlier version).
    heard: int = -1
    # Partitions on which the sender votes under another id: a controller whose metadata log was damaged has a
    # new one there, and keeps its old one for all other partitions.
    other_directories: OtherDirectories = NO_OTHERS

    def directory_for(self, key: PartitionKey) -> UUID | None:
        return next((other for each, other in self.other_directories if each == key), self.directory)


class Readable(Protocol):
    @property
    def size(self) -> int: ...

    def read(self) -> Buffer: ...


class FetchPart(NamedTuple):
    """The leader's answer for one partition."""

    key: PartitionKey
    offset: int  # that was asked for
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1  # of the leader, for a follower that is behind
    leader: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    records: Readable | None = None
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None  # our log begins later: get this first


class FetchGot(NamedTuple):
    sender: int
    generation: int
    error: ErrorCode  # anything but NONE: the leader cannot build on what it remembers; ask completely again
    parts: list[FetchPart]  # only partitions with news; none at all is a sign of life


class VoteAsked(NamedTuple):
    sender: int
    key: PartitionKey
    ask: VoteAsk


class VoteAnswered(NamedTuple):
    sender: int
    key: PartitionKey
    got: VoteGot


class LeaderBegan(NamedTuple):
    """A new leader tells a voter of its epoch."""

    sender: int
    key: PartitionKey
    epoch: int


class StandNow(NamedTuple):
    """A leader hands over: who gets this holds everything the leader has, and stands for election at once."""

    sender: int
    key: PartitionKey
    epoch: int


class TailAsk(NamedTuple):
    """Who is to lead asks another replica how far its log goes."""

    sender: int
    key: PartitionKey
    epoch: int


class TailGot(NamedTuple):
    sender: int
    key: PartitionKey
    error: ErrorCode
    epoch: int  # that was asked in
    last_epoch: int  # of the newest record
    end_offset: int


TailMessage = TailAsk | TailGot


class SnapshotAsk(NamedTuple):
    """A piece of a snapshot."""

    sender: int
    key: PartitionKey
    epoch: int
    directory: UUID | None
    snapshot: SnapshotId
    position: int
    max_bytes: int


class SnapshotGot(NamedTuple):
    sender: int
    key: PartitionKey
    error: ErrorCode
    epoch: int
    leader: int
    snapshot: SnapshotId
    size: int  # of the whole snapshot
    position: int  # of the piece in it
    data: Buffer


Message = (
    TailMessage
    | FetchAsk
    | FetchGot
    | VoteAsked
    | VoteAnswered
    | LeaderBegan
    | StandNow
    | SnapshotAsk
    | SnapshotGot
)


class Peers(Protocol):
    """The way to the other nodes."""

    def send(self, to: int, message: Message) -> None:
        """Best effort. Never calls back before it returns."""


class Bytes:
    """Records in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: Buffer) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self) -> Buffer:
        return self._data
