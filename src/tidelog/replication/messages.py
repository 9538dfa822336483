"""What replicas say to each other. One way each: an answer is a message of its own, and any of them may be
lost, doubled or late. On the wire they are Kafka's own requests (Fetch, Vote); a simulated network carries
them as they are.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from tidelog.errors import ErrorCode
from tidelog.replication.election import VoteAsk, VoteGot

PartitionKey = Hashable
"""Names a partition for good: topic id and number."""


class FetchItem(NamedTuple):
    """One partition a follower wants to go on with."""

    key: PartitionKey
    epoch: int
    offset: int
    last_epoch: int  # of the record before ``offset``
    log_start_offset: int
    high_watermark: int  # as far as the follower knows; a leader that knows more answers at once


class FetchAsk(NamedTuple):
    sender: int
    generation: int  # of the follower's loop: a newer one makes the leader let go of an older one
    items: list[FetchItem]
    max_wait_ms: int
    max_bytes: int


class Readable(Protocol):
    @property
    def size(self) -> int: ...

    def read(self) -> bytes: ...


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


class FetchGot(NamedTuple):
    sender: int
    generation: int
    parts: list[FetchPart]


class VoteAsked(NamedTuple):
    sender: int
    key: PartitionKey
    ask: VoteAsk


class VoteAnswered(NamedTuple):
    sender: int
    key: PartitionKey
    got: VoteGot


Message = FetchAsk | FetchGot | VoteAsked | VoteAnswered


class Peers(Protocol):
    """The way to the other nodes."""

    def send(self, to: int, message: Message) -> None:
        """Best effort. Never calls back before it returns."""


class Bytes:
    """Records in memory."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self) -> bytes:
        return self._data
