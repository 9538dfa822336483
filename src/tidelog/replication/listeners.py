"""Who is told of what happens to a replica with its log, and whom it asks.

A hosted replica knows its host and its server only by these.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import StorageError
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.progress import Progress
from tidelog.replication.syncing import Syncer
from tidelog.replication.votes import AskVote, Ballot, RespondToVote, TellLeader

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class ReplicaListener(Protocol):
    """What the host of a replica wants to know."""

    @property
    def syncer(self) -> Syncer: ...

    def committed(self, driver: "ReplicaDriver") -> None: ...

    def role_changed(self, driver: "ReplicaDriver") -> None: ...

    def is_followed_by(self, driver: "ReplicaDriver", follower: int) -> bool:
        """Whether a follower's ask stands, or stood a moment ago."""

    def followed_until_ms(self, driver: "ReplicaDriver", follower: int) -> int:
        """Until when a follower is known to have followed; what it said may have been long on its way."""

    def when_followed(
        self, driver: "ReplicaDriver", followers: frozenset[int], then: Callable[[bool], None]
    ) -> None:
        """Tell whether all of them follow from now on."""

    def wake(self, driver: "ReplicaDriver") -> None:
        """Somebody waits here: the clock must look."""

    def grown(self, driver: "ReplicaDriver") -> None:
        """A leader's log is longer: parked fetches of followers can be answered."""

    def proposed(self, driver: "ReplicaDriver", proposal: ProposeInSync) -> None: ...

    def election_moved(self, driver: "ReplicaDriver") -> None:
        """Its deadline may be another one."""

    def ask_vote(self, driver: "ReplicaDriver", effect: AskVote) -> None: ...

    def answer_vote(self, driver: "ReplicaDriver", effect: RespondToVote) -> None: ...

    def tell_leader(self, driver: "ReplicaDriver", effect: TellLeader) -> None: ...

    def failed(self, driver: "ReplicaDriver", error: StorageError) -> None: ...

    def damaged(self, driver: "ReplicaDriver") -> None:
        """Old records are not what was written; they have to come from another replica."""


class Observer(Protocol):
    """Whoever serves this replica to clients."""

    def committed(self) -> None:
        """The high watermark has moved."""

    def role_changed(self) -> None: ...


class QuorumFetcher(NamedTuple):
    """Somebody who fetches a log whose replicas vote."""

    directory: UUID | None
    progress: Progress


class NullListener:
    def committed(self) -> None: ...

    def role_changed(self) -> None: ...


class Ballots(Protocol):
    """Where a voter's ballot lies."""

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        """Write and sync it where that blocks nobody; ``saved`` gets None, or the error."""
