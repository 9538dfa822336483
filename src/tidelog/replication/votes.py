"""What elections are made of: ballots, questions and answers, timing, and the effects of an election."""

from typing import NamedTuple
from uuid import UUID

from tidelog.types import NO_BROKER


class Ballot(NamedTuple):
    """What a voter must never forget."""

    epoch: int = 0
    voted_for: int = NO_BROKER


class Timing(NamedTuple):
    """In each range "plus chance" means: up to as much again, so that ties do not repeat."""

    silence_ms: int = 1000  # A leader that was not heard of for so long is taken for dead.
    majority_ms: int = 1500  # A leader that did not hear of a majority for so long steps down.
    # Whoever heard the leader within this time vouches for it. Less than the silence: when somebody has given
    # a leader up, those who heard its last words a little later should not hold everybody back.
    trust_ms: int = 600
    ask_ms: int = 40  # The first round of asking whether, plus chance; doubles up to ``round_ms``.
    round_ms: int = 300  # A round of asking for votes, plus chance.
    grace_ms: int = 15  # After the leader's connection closed, plus chance.
    # After our own process stood still, so long nobody is judged: longer than a standstill of the others.
    stall_grace_ms: int = 600
    # With an empty log: how long a majority waits for a voter that has not answered. It may know that there
    # is a history, which a majority of empty disks must not begin anew.
    founding_ms: int = 0


class Tail(NamedTuple):
    """How complete a log is: compared by the epoch of the newest record, then by length."""

    last_epoch: int
    end_offset: int


class VoteAsk(NamedTuple):
    epoch: int  # With ``pre`` the asker's present epoch, else the new one.
    candidate: int
    tail: Tail
    pre: bool
    candidate_directory: UUID | None = None
    voter_directory: UUID | None = None  # Of the voter that is meant; None: whichever disk it has.


class VoteGot(NamedTuple):
    voter: int
    epoch: int
    granted: bool
    leader: int  # -1 when unknown
    pre: bool


class SaveBallot(NamedTuple):
    """Write and sync; everything behind it waits."""

    ballot: Ballot


class AskVote(NamedTuple):
    voter: int
    ask: VoteAsk


class RespondToVote(NamedTuple):
    asker: int
    got: VoteGot


class Lead(NamedTuple):
    epoch: int


class TellLeader(NamedTuple):
    """Tell a voter that we lead: it fetches from nobody until it knows whom to ask."""

    voter: int
    epoch: int


class Follow(NamedTuple):
    """Nobody leads when ``leader`` is -1."""

    epoch: int
    leader: int


ElectionEffect = SaveBallot | AskVote | RespondToVote | Lead | TellLeader | Follow
ElectionEffects = list[ElectionEffect]
