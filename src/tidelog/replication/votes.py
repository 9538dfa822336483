"""The data of elections: ballots, requests and responses, timing, and the effects of an election."""

from typing import NamedTuple
from uuid import UUID

from tidelog.types import NO_BROKER


class Ballot(NamedTuple):
    """What a voter must store durably before it acts on it."""

    epoch: int = 0
    voted_for: int = NO_BROKER


class Timing(NamedTuple):
    """Timeouts of elections. "Plus chance" means: plus a random delay of up to the same length, so that ties
    do not repeat.
    """

    silence_ms: int = 1000  # A leader that was not heard for this long is taken for dead.
    majority_ms: int = 1500  # A leader that did not hear a majority for this long steps down.
    # A voter that heard the leader within this time refuses pre-votes. Less than the silence timeout: when
    # one voter has given a leader up, those that heard it slightly later should not delay the election.
    trust_ms: int = 600
    ask_ms: int = 40  # The first pre-vote round, plus chance; doubles up to ``round_ms``.
    round_ms: int = 300  # A round of vote requests, plus chance.
    grace_ms: int = 15  # After the leader's connection closed, plus chance.
    # After a stall of our own process no other node is judged silent for this long: longer than their stalls.
    stall_grace_ms: int = 600
    # With an empty log: how long a majority waits for a voter that has not responded. That voter may know of
    # records, and a majority of empty disks must not start a new history then.
    founding_ms: int = 0


class Tail(NamedTuple):
    """How complete a log is: compared by the epoch of the newest record, then by log end offset."""

    last_epoch: int
    end_offset: int


class VoteRequest(NamedTuple):
    epoch: int  # with ``pre`` the candidate's present epoch, otherwise the new one
    candidate: int
    tail: Tail
    pre: bool
    candidate_directory: UUID | None = None
    voter_directory: UUID | None = None  # of the intended voter; None: whichever it has
    # The loss for which the intended voter was readmitted, according to the candidate's log; -1: none.
    heals: int = -1


class VoteResponse(NamedTuple):
    voter: int
    epoch: int
    granted: bool
    leader: int  # -1 when unknown
    pre: bool
    start_offset: int = 0  # the log start offset of the voter; 0 if it does not say


class SaveBallot(NamedTuple):
    """Write and sync it; all later effects wait for that."""

    ballot: Ballot


class RequestVote(NamedTuple):
    voter: int
    request: VoteRequest


class RespondToVote(NamedTuple):
    candidate: int
    response: VoteResponse


class Lead(NamedTuple):
    epoch: int


class TellLeader(NamedTuple):
    """Tell a voter that we lead: it cannot fetch before it knows the leader."""

    voter: int
    epoch: int


class Follow(NamedTuple):
    """``leader`` -1: no leader is known."""

    epoch: int
    leader: int


ElectionEffect = SaveBallot | RequestVote | RespondToVote | Lead | TellLeader | Follow
ElectionEffects = list[ElectionEffect]
