"""Interfaces through which a replica with its log reports events and queries its host.

A driver knows its host and its partition only by these.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import StorageError
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.progress import Progress
from tidelog.replication.syncing import Syncer
from tidelog.replication.votes import Ballot, RequestVote, RespondToVote, TellLeader

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class ReplicaListener(Protocol):
    """What a driver reports to its host and queries from it."""

    @property
    def syncer(self) -> Syncer: ...

    def committed(self, driver: "ReplicaDriver") -> None: ...

    def role_changed(self, driver: "ReplicaDriver") -> None: ...

    def is_followed_by(self, driver: "ReplicaDriver", follower: int) -> bool:
        """Whether a fetch request of this follower is pending, or was a moment ago."""

    def followed_until_ms(self, driver: "ReplicaDriver", follower: int) -> int:
        """Until when a follower is known to have followed. Its messages may have been delayed for long."""

    def when_followed(
        self, driver: "ReplicaDriver", followers: frozenset[int], then: Callable[[bool], None]
    ) -> None:
        """Call ``then`` with whether all ``followers`` still follow."""

    def wake(self, driver: "ReplicaDriver") -> None:
        """A request waits here: this replica must be ticked."""

    def grown(self, driver: "ReplicaDriver") -> None:
        """There is news: the pending fetches of a leader's followers can be answered, or a follower can fetch
        again.
        """

    def proposed(self, driver: "ReplicaDriver", proposal: ProposeInSync) -> None: ...

    def election_moved(self, driver: "ReplicaDriver") -> None:
        """Its deadline may have changed."""

    def request_vote(self, driver: "ReplicaDriver", effect: RequestVote) -> None: ...

    def respond_to_vote(self, driver: "ReplicaDriver", effect: RespondToVote) -> None: ...

    def tell_leader(self, driver: "ReplicaDriver", effect: TellLeader) -> None: ...

    def failed(self, driver: "ReplicaDriver", error: StorageError) -> None: ...

    def damaged(self, driver: "ReplicaDriver") -> None:
        """Stored records differ from what was written. They have to be fetched from another replica."""


class Hearing(Protocol):
    """When the nodes of an election were last heard."""

    def leader_heard_ms(self, driver: "ReplicaDriver", leader: int) -> int:
        """When the leader was last heard; -1: never."""

    def count_voters(self, driver: "ReplicaDriver") -> None:
        """Tell the voter of a leader when each other voter was last heard."""

    def note_alive(self, driver: "ReplicaDriver") -> None:
        """Tell the voter of a leader what each node that fetches holds."""


class Observer(Protocol):
    """Serves this replica to clients."""

    def committed(self) -> None:
        """The high watermark has advanced."""

    def role_changed(self) -> None: ...


class QuorumFetcher(NamedTuple):
    """A node that fetches a log whose replicas vote: a voter or an observer."""

    directory: UUID | None
    progress: Progress


class NullListener:
    def committed(self) -> None: ...

    def role_changed(self) -> None: ...


class Ballots(Protocol):
    """Stores a voter's ballot."""

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        """Write and sync it without blocking. ``saved`` receives None, or the error."""
