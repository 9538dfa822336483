"""Who is told of what happens to a replica with its log, and whom it asks.

A hosted replica knows its host, its server, its voters' keeper and its restorer only by these.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from tidelog.errors import StorageError
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.messages import TailGot
from tidelog.replication.progress import Progress
from tidelog.replication.syncing import Syncer
from tidelog.replication.votes import AnswerVote, AskVote, Ballot, TellLeader

if TYPE_CHECKING:
    from tidelog.replication.hosted import Hosted
    from tidelog.replication.restoring import Mandate


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


class TailListener(Protocol):
    """Whoever must know what is in the log before it is committed."""

    def appended(self, batches: memoryview) -> None: ...

    def cut(self, end_offset: int) -> None:
        """What came from there on is gone."""


class VoterLog(Protocol):
    """Whoever must know of sets of voters before they are in the log."""

    def arriving(self, batches: memoryview) -> None:
        """From a leader. Raises StorageError when they must not be appended."""

    def arrived(self) -> None:
        """They are in the log."""

    def cut(self, end_offset: int) -> None: ...

    def skipped(self) -> None:
        """The log goes on at a later place: what was said in between is not known."""


class Seen(NamedTuple):
    """Somebody who fetches a log whose replicas vote."""

    directory: UUID | None
    progress: Progress


class Restorer(Protocol):
    """Sees to it that a replica that is to lead gets what it lacks."""

    @property
    def mandate(self) -> "Mandate": ...

    @property
    def problem(self) -> str:
        """Why it does not go on; empty while it may."""

    def renewed(self, mandate: "Mandate") -> None: ...

    def got(self, got: TailGot) -> None: ...

    def restarted(self, broker: int) -> None: ...

    def taken(self) -> None: ...

    def diverged(self, diverging: tuple[int, int]) -> bool: ...

    def stop(self) -> None: ...


class Nobody:
    def committed(self) -> None: ...

    def role_changed(self) -> None: ...


class Ballots(Protocol):
    """Where a voter's ballot lies."""

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        """Write and sync it where that blocks nobody; ``saved`` gets None, or the error."""
