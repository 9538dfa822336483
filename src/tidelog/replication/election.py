"""How replicas elect a leader among themselves: Raft's vote, with a pre-vote, for a log that is pulled.

=========== ==================================== ==========================================================
state       means                                leaves when
=========== ==================================== ==========================================================
unattached  no leader known in this epoch        a leader is heard; time is up → prospective
follower    a leader is known                    it falls silent or its connection closes → prospective
prospective asks whether it would be elected     a majority says yes → candidate; time is up → asks again
candidate   asks for votes in a new epoch        a majority grants → leader; time is up → prospective
leader      leads this epoch                     a higher epoch is heard; no majority heard of → unattached
=========== ==================================== ==========================================================

The pre-vote keeps a replica that cannot win (cut off, or behind) from raising the epoch and unseating a
leader that serves everybody else. A ballot (epoch and vote) must be on disk before anything that follows from
it is sent: effects after :class:`SaveBallot` wait for the sync. Otherwise a crash would let a replica vote
twice in one epoch.
"""

from enum import Enum
from typing import NamedTuple

from tidelog.invariant import invariant
from tidelog.types import NO_BROKER

NEVER_MS = -(1 << 62)


class State(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Ballot(NamedTuple):
    """What a voter must never forget."""

    epoch: int = 0
    voted_for: int = NO_BROKER


class Timing(NamedTuple):
    silence_ms: int = 1000  # A leader that was not heard of for so long is taken for dead.
    round_ms: int = 300  # A round of asking, plus up to as much again by chance: ties must not repeat.
    grace_ms: int = 30  # After the leader's connection closed, plus up to as much again by chance.


class Tail(NamedTuple):
    """How complete a log is: compared by the epoch of the newest record, then by length."""

    last_epoch: int
    end_offset: int


class VoteAsk(NamedTuple):
    epoch: int  # With ``pre`` the asker's present epoch, else the new one.
    candidate: int
    tail: Tail
    pre: bool


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


class AnswerVote(NamedTuple):
    asker: int
    got: VoteGot


class Lead(NamedTuple):
    epoch: int


class Follow(NamedTuple):
    """Nobody leads when ``leader`` is -1."""

    epoch: int
    leader: int


ElectionEffect = SaveBallot | AskVote | AnswerVote | Lead | Follow
ElectionEffects = list[ElectionEffect]


class Election:
    def __init__(
        self, me: int, voters: frozenset[int], ballot: Ballot, timing: Timing, now_ms: int, chance: float
    ) -> None:
        self.me = me
        self.voters = voters
        self.timing = timing
        self.epoch = ballot.epoch
        self.voted_for: int = ballot.voted_for
        self.leader: int = NO_BROKER
        self.state = State.UNATTACHED
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._heard: dict[int, int] = {}  # While leading: when each voter was last heard of.
        # When the leader itself was last heard. Others' word for it is a reason to try it, not a reason to
        # believe in it: two followers could assure each other of a dead leader for ever.
        self._leader_heard_ms = NEVER_MS
        # A new process waits a little before it disturbs anybody: there may be a leader it has not heard of.
        self.deadline_ms = now_ms + timing.round_ms + int(chance * timing.round_ms)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def ballot(self) -> Ballot:
        return Ballot(self.epoch, self.voted_for)

    def next_deadline_ms(self) -> int:
        return self.deadline_ms

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        if now_ms < self.deadline_ms:
            return []
        if self.state is State.LEADER:
            return self._check_majority(now_ms)
        if self.me not in self.voters:
            self.deadline_ms = now_ms + self.timing.silence_ms
            return self._detach() if self.state is State.FOLLOWER else []
        return self._ask_whether(now_ms, chance, tail)

    def _check_majority(self, now_ms: int) -> ElectionEffects:
        """A leader that hears of no majority cannot commit, and there may be another one: it steps down."""
        oldest = now_ms - self.timing.silence_ms
        alive = 1 + sum(
            1 for voter, heard_ms in self._heard.items() if voter != self.me and heard_ms >= oldest
        )
        if alive >= self.majority:
            self.deadline_ms = now_ms + self.timing.silence_ms // 4
            return []
        self.state = State.UNATTACHED
        self.leader = NO_BROKER
        self.deadline_ms = now_ms + self.timing.round_ms
        return [Follow(self.epoch, NO_BROKER)]

    def leader_lost(self, leader: int, now_ms: int, chance: float) -> None:
        """Its connection closed: a dead process is noticed long before it is silent for too long."""
        if self.state is State.FOLLOWER and self.leader == leader:
            self._leader_heard_ms = NEVER_MS
            grace = self.timing.grace_ms + int(chance * self.timing.grace_ms)
            self.deadline_ms = min(self.deadline_ms, now_ms + grace)

    def _detach(self) -> ElectionEffects:
        self.state = State.UNATTACHED
        self.leader = NO_BROKER
        return [Follow(self.epoch, NO_BROKER)]

    # --- asking ---------------------------------------------------------------------------------------------

    def _ask_whether(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        effects: ElectionEffects = self._detach() if self.state is State.FOLLOWER else []
        self.state = State.PROSPECTIVE
        self._begin_round(now_ms, chance)
        if len(self._granted) >= self.majority:
            return effects + self._ask_votes(now_ms, chance, tail)
        return effects + self._ask_all(VoteAsk(self.epoch, self.me, tail, True))

    def _ask_votes(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        self.state = State.CANDIDATE
        self.epoch += 1
        self.voted_for = self.me
        self.leader = NO_BROKER
        self._begin_round(now_ms, chance)
        effects: ElectionEffects = [SaveBallot(self.ballot), Follow(self.epoch, NO_BROKER)]
        if len(self._granted) >= self.majority:
            return effects + self._win(now_ms)
        return effects + self._ask_all(VoteAsk(self.epoch, self.me, tail, False))

    def _begin_round(self, now_ms: int, chance: float) -> None:
        self._granted = {self.me}
        self._refused = set()
        self.deadline_ms = now_ms + self.timing.round_ms + int(chance * self.timing.round_ms)

    def _ask_all(self, ask: VoteAsk) -> ElectionEffects:
        return [AskVote(voter, ask) for voter in sorted(self.voters) if voter != self.me]

    def vote_got(self, got: VoteGot, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """An answer to one of our questions; late ones, of another epoch or kind, say nothing any more."""
        if got.epoch > self.epoch:
            return self._newer_epoch(got.epoch, got.leader, now_ms, chance)
        asking = State.PROSPECTIVE if got.pre else State.CANDIDATE
        if got.epoch < self.epoch or self.state is not asking or got.voter not in self.voters:
            return []
        if not got.granted:
            if got.leader not in (NO_BROKER, self.me):
                return self.leader_named(got.leader, got.epoch, now_ms)
            self._refused.add(got.voter)
            return []
        self._granted.add(got.voter)
        if len(self._granted) < self.majority:
            return []
        return self._ask_votes(now_ms, chance, tail) if got.pre else self._win(now_ms)

    def _win(self, now_ms: int) -> ElectionEffects:
        self.state = State.LEADER
        self.leader = self.me
        self._heard = dict.fromkeys(self.voters, now_ms)
        self.deadline_ms = now_ms + self.timing.silence_ms // 4
        return [Lead(self.epoch)]

    # --- being asked ----------------------------------------------------------------------------------------

    def vote_asked(self, ask: VoteAsk, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        effects: ElectionEffects = []
        if ask.epoch > self.epoch and not ask.pre:
            effects = self._newer_epoch(ask.epoch, NO_BROKER, now_ms, chance)
        granted = self._would_elect(ask, now_ms, tail) if ask.pre else self._grant(ask, tail)
        if granted and not ask.pre:
            self.voted_for = ask.candidate
            self.deadline_ms = now_ms + self.timing.round_ms + int(chance * self.timing.round_ms)
            effects.append(SaveBallot(self.ballot))
        leader = self.leader if self._hears_leader(now_ms) else NO_BROKER
        got = VoteGot(self.me, self.epoch, granted, leader, ask.pre)
        effects.append(AnswerVote(ask.candidate, got))
        return effects

    def _would_elect(self, ask: VoteAsk, now_ms: int, tail: Tail) -> bool:
        """Not while we hear a leader: the asker may only be cut off from it."""
        return ask.epoch >= self.epoch and not self._hears_leader(now_ms) and ask.tail >= tail

    def _hears_leader(self, now_ms: int) -> bool:
        if self.state is State.LEADER:
            return True
        return self.leader != NO_BROKER and now_ms - self._leader_heard_ms < self.timing.silence_ms

    def _grant(self, ask: VoteAsk, tail: Tail) -> bool:
        if ask.epoch < self.epoch or self.leader != NO_BROKER:
            return False
        # One vote per epoch; the same answer again to the same candidate, whose answer may have been lost.
        if self.voted_for not in (NO_BROKER, ask.candidate):
            return False
        return ask.tail >= tail

    # --- hearing of leaders ---------------------------------------------------------------------------------

    def leader_heard(self, leader: int, epoch: int, now_ms: int) -> ElectionEffects:
        """The leader of ``epoch`` itself has spoken to us."""
        effects = self._attach(leader, epoch)
        if self.state is State.FOLLOWER and self.leader == leader and self.epoch == epoch:
            self._leader_heard_ms = now_ms
            self.deadline_ms = now_ms + self.timing.silence_ms
        return effects

    def leader_named(self, leader: int, epoch: int, now_ms: int) -> ElectionEffects:
        """Somebody says that ``leader`` leads ``epoch``: worth a try, for the length of a round."""
        effects = self._attach(leader, epoch)
        if effects:
            self.deadline_ms = now_ms + 2 * self.timing.round_ms
        return effects

    def _attach(self, leader: int, epoch: int) -> ElectionEffects:
        if epoch < self.epoch or (epoch == self.epoch and self.leader == leader):
            return []
        if epoch == self.epoch and self.state is State.LEADER:
            return []
        invariant(
            epoch > self.epoch or self.leader == NO_BROKER, "one leader per epoch", epoch, self.leader, leader
        )
        effects: ElectionEffects = []
        if epoch > self.epoch:
            self.epoch = epoch
            self.voted_for = NO_BROKER
            effects.append(SaveBallot(self.ballot))
        self.state = State.FOLLOWER
        self.leader = leader
        self._leader_heard_ms = NEVER_MS
        effects.append(Follow(epoch, leader))
        return effects

    def voter_heard(self, voter: int, now_ms: int) -> None:
        """While leading: a voter's fetch arrived."""
        self._heard[voter] = now_ms

    def _newer_epoch(self, epoch: int, leader: int, now_ms: int, chance: float) -> ElectionEffects:
        if leader not in (NO_BROKER, self.me):
            return self.leader_named(leader, epoch, now_ms)
        self.epoch = epoch
        self.voted_for = NO_BROKER
        self.leader = NO_BROKER
        self.state = State.UNATTACHED
        self.deadline_ms = now_ms + self.timing.round_ms + int(chance * self.timing.round_ms)
        return [SaveBallot(self.ballot), Follow(epoch, NO_BROKER)]
