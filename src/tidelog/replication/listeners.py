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
from tidelog.replication.votes import AnswerVote, AskVote, Ballot, TellLeader

if TYPE_CHECKING:
    from tidelog.replication.hosted import Hosted


class Listener(Protocol):
    """What the host of a replica wants to know."""

    @property
    def syncer(self) -> Syncer: ...

    def committed(self, hosted: "Hosted") -> None: ...

    def role_changed(self, hosted: "Hosted") -> None: ...

    def is_followed_by(self, hosted: "Hosted", follower: int) -> bool:
        """Whether a follower's ask stands, or stood a moment ago."""

    def followed_until_ms(self, hosted: "Hosted", follower: int) -> int:
        """Until when a follower is known to have followed; what it said may have been long on its way."""

    def when_followed(
        self, hosted: "Hosted", followers: frozenset[int], then: Callable[[bool], None]
    ) -> None:
        """Tell whether all of them follow from now on."""

    def wake(self, hosted: "Hosted") -> None:
        """Somebody waits here: the clock must look."""

    def grown(self, hosted: "Hosted") -> None:
        """A leader's log is longer: parked fetches of followers can be answered."""

    def proposed(self, hosted: "Hosted", proposal: ProposeInSync) -> None: ...

    def election_moved(self, hosted: "Hosted") -> None:
        """Its deadline may be another one."""

    def ask_vote(self, hosted: "Hosted", effect: AskVote) -> None: ...

    def answer_vote(self, hosted: "Hosted", effect: AnswerVote) -> None: ...

    def tell_leader(self, hosted: "Hosted", effect: TellLeader) -> None: ...

    def failed(self, hosted: "Hosted", error: StorageError) -> None: ...

    def damaged(self, hosted: "Hosted") -> None:
        """Old records are not what was written; they have to come from another replica."""


class Observer(Protocol):
    """Whoever serves this replica to clients."""

    def committed(self) -> None:
        """The high watermark has moved."""

    def role_changed(self) -> None: ...


class Seen(NamedTuple):
    """Somebody who fetches a log whose replicas vote."""

    directory: UUID | None
    progress: Progress


class Nobody:
    def committed(self) -> None: ...

    def role_changed(self) -> None: ...


class Ballots(Protocol):
    """Where a voter's ballot lies."""

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        """Write and sync it where that blocks nobody; ``saved`` gets None, or the error."""
