"""The messages between replicas. Each goes one way: a response is a message of its own, and any message may
be lost, duplicated or late. On the wire they are Kafka's own requests (Fetch, Vote, BeginQuorumEpoch,
EndQuorumEpoch, FetchSnapshot). A simulated network carries them as they are.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.log.storage import Buffer
from tidelog.replication.votes import VoteRequest, VoteResponse
from tidelog.types import SnapshotId

PartitionKey = Hashable
"""Identifies a partition permanently: topic id and number."""


OtherDirectories = tuple[tuple[PartitionKey, UUID], ...]
"""Searched linearly, because there are few."""

NO_OTHERS: OtherDirectories = ()


class FetchItem(NamedTuple):
    """One partition that a follower fetches, and from where."""

    key: PartitionKey
    epoch: int
    offset: int
    last_epoch: int  # of the record before ``offset``
    log_start_offset: int
    high_watermark: int  # as the follower knows it; a leader that knows a higher one responds at once


class FetchAsk(NamedTuple):
    """A follower's fetch request to one leader: only what is new since the request it builds on.

    The leader remembers the rest: a partition that was requested and not answered yet is still wanted. So a
    thousand idle partitions are sent once, and not with every request.
    """

    sender: int
    broker_epoch: int  # of the sender's registration; requests from an older process do not count
    generation: int  # rises with every request
    # generation of the request that this one builds on; 0: this one is complete and replaces all before
    since: int
    items: list[FetchItem]
    forgotten: list[PartitionKey]  # not followed here any more
    max_wait_ms: int
    max_bytes: int
    # the sender's disk: where replicas vote, a voter counts only with its own disk
    directory: UUID | None = None
    # Generation of the newest response that the sender had received. A follower that still follows now also
    # followed when that response was sent. 0: none; -1: unknown (sent by brokers of an earlier version).
    heard: int = -1
    # Partitions on which the sender votes under another id: a controller whose metadata log was damaged has a
    # new id there, and keeps its old one for all other partitions.
    other_directories: OtherDirectories = NO_OTHERS

    def directory_for(self, key: PartitionKey) -> UUID | None:
        return next((other for each, other in self.other_directories if each == key), self.directory)


class Readable(Protocol):
    @property
    def size(self) -> int: ...

    def read(self) -> Buffer: ...


class FetchPart(NamedTuple):
    """The leader's response for one partition."""

    key: PartitionKey
    offset: int  # that was requested
    error: ErrorCode = ErrorCode.NONE
    epoch: int = -1  # the leader's, for a follower that is behind
    leader: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    records: Readable | None = None
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None  # the leader's log begins later: fetch this first


class FetchGot(NamedTuple):
    sender: int
    generation: int
    error: ErrorCode  # anything but NONE: the leader does not remember the session; send a complete request
    parts: list[FetchPart]  # only partitions with news; an empty list is a heartbeat


class VoteRequested(NamedTuple):
    sender: int
    key: PartitionKey
    request: VoteRequest


class VoteResponded(NamedTuple):
    sender: int
    key: PartitionKey
    response: VoteResponse


class LeaderBegan(NamedTuple):
    """A new leader announces its epoch to a voter."""

    sender: int
    key: PartitionKey
    epoch: int


class StandNow(NamedTuple):
    """A leader hands over: the receiver holds everything that the leader has, and stands for election at
    once.
    """

    sender: int
    key: PartitionKey
    epoch: int


class TailAsk(NamedTuple):
    """A replica that is to lead asks another replica for its last epoch and log end offset."""

    sender: int
    key: PartitionKey
    epoch: int


class TailGot(NamedTuple):
    sender: int
    key: PartitionKey
    error: ErrorCode
    epoch: int  # of the request
    last_epoch: int  # of the newest record
    end_offset: int
    start_offset: int = 0  # of the log; 0 as well if the sender does not tell it


TailMessage = TailAsk | TailGot


class SnapshotAsk(NamedTuple):
    """Requests a chunk of a snapshot."""

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
    position: int  # of the chunk in it
    data: Buffer


Message = (
    TailMessage
    | FetchAsk
    | FetchGot
    | VoteRequested
    | VoteResponded
    | LeaderBegan
    | StandNow
    | SnapshotAsk
    | SnapshotGot
)


class Peers(Protocol):
    """Sends messages to the other nodes."""

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
