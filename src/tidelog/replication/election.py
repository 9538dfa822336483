"""How replicas elect a leader among themselves: Raft's vote, with a pre-vote, for a log that is pulled.

=========== ==================================== ==========================================================
state       means                                leaves when
=========== ==================================== ==========================================================
unattached  no leader known in this epoch        a leader is heard; time is up → prospective
follower    a leader is known                    it falls silent or its connection closes → prospective
prospective asks whether it would be elected     a majority says yes → candidate; time is up → asks again;
                                                 a better one asks the same → unattached
candidate   asks for votes in a new epoch        a majority grants → leader; time is up → prospective
leader      leads this epoch                     a higher epoch is heard; no majority heard of; it is no
                                                 voter any more → unattached
=========== ==================================== ==========================================================

The pre-vote keeps a replica that cannot win (cut off, or behind) from raising the epoch and unseating a
leader that serves everybody else; since it disturbs nobody, it is asked early and often. A ballot (epoch and
vote) must be on disk before anything that follows from it is sent: effects after :class:`SaveBallot` wait for
the sync. Otherwise a crash would let a replica vote twice in one epoch.

An observer (no voter, or a voter with another disk) asks the same question, only to hear who leads.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from enum import Enum
from uuid import UUID

from tidelog.invariant import invariant
from tidelog.machine import Machine
from tidelog.replication.voters import VoterSet
from tidelog.replication.votes import (
    AskVote,
    Ballot,
    ElectionEffects,
    Follow,
    Lead,
    RespondToVote,
    SaveBallot,
    Tail,
    TellLeader,
    Timing,
    VoteAsk,
    VoteGot,
)
from tidelog.types import NO_BROKER

NEVER_MS = -(1 << 62)
FOREVER_MS = 1 << 62


class ElectionState(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"


class Election(Machine):
    def __init__(
        self,
        me: int,
        voters: VoterSet,
        ballot: Ballot,
        timing: Timing,
        now_ms: int,
        chance: float,
        directory: UUID | None = None,
        first_delay_ms: int | None = None,
        *,
        hearsay_max: int = 1 << 31,
        forgot: bool = False,
    ) -> None:
        """``first_delay_ms``: how long it waits before it asks for the first time; else that is left to
        chance.
        """
        self.me = me
        self.directory = directory
        self.voters = voters
        self.timing = timing
        self.epoch = ballot.epoch
        self.voted_for: int = ballot.voted_for
        self.leader: int = NO_BROKER
        self.state = ElectionState.UNATTACHED
        self.retired = False  # Its disk has failed.
        # It may lack what it acknowledged, or not know how it voted: it neither votes nor stands until the
        # others have taken it in anew.
        self.forgot = forgot
        # Somebody else has our name, and leads; or we did, before we started anew.
        self.is_mistaken_for_leader = False
        self.hearsay_max = hearsay_max  # By how many epochs we may be behind and believe who names a leader.
        # It is no voter any more, but the set that says so is not committed. The others may not have heard of
        # that set, and wait for our vote without end: we must be able to lead them to it.
        self.needed = False
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._born_ms = now_ms
        self._rounds = 0  # of asking whether, since a leader was last heard
        self._asking_since_ms = now_ms
        self._refused_ms = NEVER_MS  # when somebody with a longer log, or who outranks us, last said no
        self._fresh = True  # Until a leader is known: there may be one we have not heard of yet.
        self._heard: dict[int, int] = {}  # While leading: when each voter was last heard of,
        self._unheard: set[int] = set()  # and who has not been in this epoch.
        # And until when each is known to have voted for nobody else. What is heard may have been said long
        # before; this was told in answer to something that was said then.
        self._confirmed: dict[int, int] = {}
        # When the leader itself was last heard. Others' word for it is a reason to try it, not a reason to
        # believe in it: two followers could assure each other of a dead leader for ever.
        self.leader_heard_ms = NEVER_MS
        self.doubted_ms = NEVER_MS  # When it was last taken for lost; what it said before counts no more.
        self._given_up: tuple[int, int] = (NO_BROKER, -1)  # The leader we took for dead last, and its epoch.
        if voters.ids == {me}:
            first_delay_ms = 0
        elif first_delay_ms is None:
            first_delay_ms = timing.ask_ms // 2 + int(chance * timing.ask_ms)
        self.deadline_ms = now_ms + first_delay_ms

    @property
    def is_voter(self) -> bool:
        return self.voters.counts(self.me, self.directory) and not self.forgot

    @property
    def may_stand(self) -> bool:
        return (self.is_voter or self.needed) and not self.forgot

    @property
    def ballot(self) -> Ballot:
        return Ballot(self.epoch, self.voted_for)

    # --- time -----------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        if now_ms < self.deadline_ms or self.retired:
            return []
        if self.state is ElectionState.LEADER:
            return self._check_majority(now_ms)
        if self.state is ElectionState.PROSPECTIVE and self._promised_enough(now_ms, tail):
            return self.ask_votes(now_ms, chance, tail)
        return self._ask_whether(now_ms, chance, tail)

    def _check_majority(self, now_ms: int) -> ElectionEffects:
        """A leader that hears of no majority cannot commit, and there may be another one: it steps down."""
        if self.hears_majority(self.timing.majority_ms, now_ms):
            self.deadline_ms = now_ms + self.timing.silence_ms // 4
            return self._tell(self._unheard)
        return self.resign(now_ms)

    def hears_majority(self, within_ms: int, now_ms: int) -> bool:
        """While leading: whether so many were heard of lately that nobody else can have been elected."""
        oldest, heard = now_ms - within_ms, self._heard
        missing = self.voters.majority
        for voter_id in self.voters.ids:  # Asked for every partition that is led, several times a second.
            if voter_id == self.me or heard.get(voter_id, NEVER_MS) >= oldest:
                missing -= 1
        return missing <= 0

    def _tell(self, voters: Iterable[int]) -> ElectionEffects:
        return [TellLeader(voter_id, self.epoch) for voter_id in sorted(voters) if voter_id != self.me]

    def resign(self, now_ms: int) -> ElectionEffects:
        """Lead no longer, and let the others go first."""
        if self.state is not ElectionState.LEADER:
            return []
        self.deadline_ms = now_ms + self.timing.round_ms
        return self._detach()

    def retire(self) -> ElectionEffects:
        """The disk takes nothing more: neither lead nor vote from now on."""
        self.retired = True
        return self._detach() if self.state is ElectionState.LEADER else []

    def resume(self) -> None:
        """The log takes writes again."""
        self.retired = False

    def stalled(self, now_ms: int) -> None:
        """Our own process stood still (a busy machine, a long collection): what the others said meanwhile
        waits to be read. Nobody is judged before it was.
        """
        timing = self.timing
        if self.state is ElectionState.LEADER:
            oldest = now_ms - timing.majority_ms + timing.stall_grace_ms
            self._heard = {voter: max(heard_ms, oldest) for voter, heard_ms in self._heard.items()}
        elif self.state is ElectionState.FOLLOWER and self.leader_heard_ms != NEVER_MS:
            self.deadline_ms = max(self.deadline_ms, now_ms + timing.stall_grace_ms)

    def set_timing(self, timing: Timing) -> None:
        """For what is judged from now on."""
        self.timing = timing

    def hurry(self, now_ms: int) -> None:
        """Its time is up, whatever it still waits for."""
        self.deadline_ms = min(self.deadline_ms, now_ms)

    def leader_lost(self, leader: int, now_ms: int, chance: float) -> None:
        """Its connection closed: a dead process is noticed long before it is silent for too long."""
        if self.state is ElectionState.FOLLOWER and self.leader == leader:
            self.leader_heard_ms = NEVER_MS
            self.doubted_ms = now_ms
            self.deadline_ms = min(self.deadline_ms, now_ms + _spread(self.timing.grace_ms, chance))

    def _detach(self) -> ElectionEffects:
        self._given_up = self.leader, self.epoch
        self.state = ElectionState.UNATTACHED
        self.leader = NO_BROKER
        return [Follow(self.epoch, NO_BROKER)]

    # --- who votes ------------------------------------------------------------------------------------------

    def change_voters(self, voters: VoterSet, now_ms: int, *, needed: bool = False) -> None:
        """The log says who votes from now on. A leader that is no voter any more leads on until that is
        committed; whoever embeds it then calls :meth:`resign`. ``needed`` as in the field.
        """
        self.voters = voters
        self.needed = needed
        if self.state is ElectionState.LEADER:
            self._heard = {voter_id: self._heard.get(voter_id, now_ms) for voter_id in voters.ids}
            self._unheard &= voters.ids
        elif self.state in (ElectionState.PROSPECTIVE, ElectionState.CANDIDATE) and not self.may_stand:
            self.state = ElectionState.UNATTACHED

    def set_needed(self, needed: bool) -> None:
        """As in the field: a set without it was written or committed."""
        self.needed = needed

    def set_forgot(self, forgot: bool) -> None:
        """As in the field: it has dropped records, or was readmitted by the others."""
        self.forgot = forgot

    # --- asking ---------------------------------------------------------------------------------------------

    def _ask_whether(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        effects: ElectionEffects = self._detach() if self.state is ElectionState.FOLLOWER else []
        if self._rounds == 0:
            self._asking_since_ms = now_ms
        self.state = ElectionState.PROSPECTIVE if self.may_stand else ElectionState.UNATTACHED
        self._begin_round()
        self.deadline_ms = now_ms + _spread(self._ask_ms(), chance)
        self._rounds += 1
        if self.may_stand and self._promised_enough(now_ms, tail):
            return effects + self.ask_votes(now_ms, chance, tail)
        return effects + self._ask_all(self.epoch, tail, pre=True)

    def _ask_ms(self) -> int:
        """Asked again soon, then less and less often: answers may need longer than we thought."""
        return min(self.timing.ask_ms << min(self._rounds, 8), self.timing.round_ms)

    def _promised_enough(self, now_ms: int, tail: Tail) -> bool:
        """Whether the promises we have allow to ask for votes.

        A majority does; but a process that has just begun first hears everybody out, for a moment: the one
        that has not answered yet may be the leader. Where all of the majority's logs are empty, it waits
        longer, and every no prolongs it: somebody knows of records.
        """
        if not self._is_majority(self._granted):
            return False
        if not self._fresh or self._granted >= self.voters.ids:
            return True
        if tail.end_offset > 0:
            return now_ms - self._asking_since_ms >= self.timing.ask_ms
        return now_ms - max(self._asking_since_ms, self._refused_ms) >= self.timing.founding_ms

    def _is_majority(self, voters: AbstractSet[int]) -> bool:
        return len(voters & self.voters.ids) >= self.voters.majority

    def ask_votes(self, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """Stand for election in a new epoch."""
        self.state = ElectionState.CANDIDATE
        self.epoch += 1
        self.voted_for = self.me
        self.leader = NO_BROKER
        self._begin_round()
        self.deadline_ms = now_ms + _spread(self.timing.round_ms, chance)
        # The questions need not wait for our own ballot: only this process can count their answers, and it
        # counts them, and its own vote, after the ballot is on disk.
        effects = self._ask_all(self.epoch, tail, pre=False)
        effects += [SaveBallot(self.ballot), Follow(self.epoch, NO_BROKER)]
        return effects + self._win(now_ms) if self._is_majority(self._granted) else effects

    def _begin_round(self) -> None:
        self._granted = {self.me}
        self._refused = set()

    def _ask_all(self, epoch: int, tail: Tail, *, pre: bool) -> ElectionEffects:
        return [
            self._ask(voter.voter_id, epoch, tail, pre=pre)
            for voter in self.voters
            if voter.voter_id != self.me
        ]

    def _ask(self, voter_id: int, epoch: int, tail: Tail, *, pre: bool) -> AskVote:
        voter = self.voters.get(voter_id)
        directory = voter.directory if voter is not None else None
        return AskVote(voter_id, VoteAsk(epoch, self.me, tail, pre, self.directory, directory))

    def vote_got(self, got: VoteGot, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """An answer to one of our questions; late ones, of another epoch or kind, say nothing any more."""
        self.is_mistaken_for_leader = got.leader == self.me and self.state is not ElectionState.LEADER
        if got.epoch > self.epoch:
            return self._newer_epoch(got.epoch, got.leader, now_ms, _spread(self._ask_ms(), chance))
        if got.epoch < self.epoch or got.voter not in self.voters or self.leader != NO_BROKER:
            return []
        if not got.granted and got.leader not in (NO_BROKER, self.me):
            return self.leader_named(got.leader, got.epoch, now_ms)
        if self.state is not (ElectionState.PROSPECTIVE if got.pre else ElectionState.CANDIDATE):
            return []
        (self._granted if got.granted else self._refused).add(got.voter)
        if not got.granted:
            self._refused_ms = now_ms
        if got.pre:
            return self.ask_votes(now_ms, chance, tail) if self._promised_enough(now_ms, tail) else []
        if self._is_majority(self._granted):
            return self._win(now_ms)
        if not self._is_majority(self.voters.ids - self._refused - {self._given_up[0]}):
            # Lost already: the votes are split. Ask again soon, but not at once with whoever lost, too.
            self.deadline_ms = min(self.deadline_ms, now_ms + _spread(self.timing.ask_ms, chance))
        return []

    def _win(self, now_ms: int) -> ElectionEffects:
        self.state = ElectionState.LEADER
        self.leader = self.me
        self._fresh = False
        self._rounds = 0
        self._heard = dict.fromkeys(self.voters.ids, now_ms)
        self._unheard = set(self.voters.ids - {self.me})
        self._confirmed = {}
        self.deadline_ms = now_ms + self.timing.silence_ms // 4
        return [Lead(self.epoch), *self._tell(self._unheard)]

    def stand_now(self, leader: int, epoch: int, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """The leader hands over to us: nobody needs to be asked whether."""
        if self.state is not ElectionState.FOLLOWER or (leader, epoch) != (self.leader, self.epoch):
            return []
        return self.ask_votes(now_ms, chance, tail) if self.may_stand and not self.retired else []

    # --- being asked ----------------------------------------------------------------------------------------

    def vote_asked(self, ask: VoteAsk, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        effects: ElectionEffects = []
        if ask.epoch > self.epoch:
            # Also of a mere question: whoever is ahead of its leader's epoch could follow nobody else.
            effects = self._newer_epoch(ask.epoch, NO_BROKER, now_ms, _spread(self.timing.round_ms, chance))
        if ask.pre:
            granted = self._would_elect(ask, now_ms, chance, tail)
            if not granted:
                effects += self._ask_instead(ask, now_ms, chance, tail)
        else:
            granted = self._grant(ask, now_ms, tail)
        if granted and not ask.pre:
            self.voted_for = ask.candidate
            self.deadline_ms = now_ms + _spread(self.timing.round_ms, chance)
            effects.append(SaveBallot(self.ballot))
        leader = self.leader if self._hears_leader(now_ms) else NO_BROKER
        effects.append(RespondToVote(ask.candidate, VoteGot(self.me, self.epoch, granted, leader, ask.pre)))
        return effects

    def _is_meant(self, ask: VoteAsk, now_ms: int, tail: Tail) -> bool:
        """A vote is asked of a voter with its disk. With another disk we have forgotten how we voted and what
        we acknowledged, and must not help to elect somebody who lacks it.

        Who does not know our disk may have missed what was decided since it became known. As long as we have
        nothing ourselves, and so may be the one that forgot, we first only help to found a cluster, and wait
        a while for somebody who knows more.
        """
        if self.retired or self.forgot:
            return False
        if self.directory is None:
            return True
        if ask.voter_directory is not None:
            return ask.voter_directory == self.directory
        if tail.end_offset > 0:
            return self.is_voter
        return ask.tail.end_offset == 0 or now_ms - self._born_ms >= self.timing.founding_ms

    def _would_elect(self, ask: VoteAsk, now_ms: int, chance: float, tail: Tail) -> bool:
        """Not while we hear a leader: the asker may only be cut off from it.

        Of two that ask at the same time, the one with the longer log, then with the lower number goes on and
        the other yields: both would go on to split the votes.
        """
        if ask.epoch < self.epoch or ask.tail < tail or not self._is_meant(ask, now_ms, tail):
            return False
        if self._hears_leader(now_ms):
            return False
        if self.state is ElectionState.PROSPECTIVE and ask.candidate in self.voters:
            if (ask.tail, -ask.candidate) < (tail, -self.me):
                return False
            self.state = ElectionState.UNATTACHED
            self.deadline_ms = now_ms + _spread(self.timing.round_ms, chance)
        return True

    def _ask_instead(self, ask: VoteAsk, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """Where we refused because we are the better choice, it is our turn to ask."""
        outranked = (ask.tail, -ask.candidate) < (tail, -self.me)
        if not outranked or ask.candidate not in self.voters or not self.may_stand:
            return []
        if self.state is ElectionState.PROSPECTIVE and ask.epoch == self.epoch:
            # The asker may not have been there when we asked.
            return [self._ask(ask.candidate, self.epoch, tail, pre=True)]
        if self.state is ElectionState.UNATTACHED and ask.tail < tail:
            self.deadline_ms = min(self.deadline_ms, now_ms + _spread(self.timing.grace_ms, chance))
        return []

    def _hears_leader(self, now_ms: int) -> bool:
        if self.state is ElectionState.LEADER:
            return True
        return self.leader != NO_BROKER and now_ms - self.leader_heard_ms < self.timing.trust_ms

    def _grant(self, ask: VoteAsk, now_ms: int, tail: Tail) -> bool:
        if ask.epoch < self.epoch or self.leader != NO_BROKER or not self._is_meant(ask, now_ms, tail):
            return False
        # One vote per epoch; the same answer again to the same candidate, whose answer may have been lost.
        if self.voted_for not in (NO_BROKER, ask.candidate):
            return False
        return ask.tail >= tail

    # --- hearing of leaders ---------------------------------------------------------------------------------

    def leader_heard(self, leader: int, epoch: int, now_ms: int) -> ElectionEffects:
        """The leader of ``epoch`` itself has spoken to us."""
        effects = self._attach(leader, epoch)
        if self.state is ElectionState.FOLLOWER and self.leader == leader and self.epoch == epoch:
            self.leader_heard_ms = now_ms
            self._fresh = False
            self._rounds = 0
            # Told of later than it happened: a standstill since then may have given more time already.
            self.deadline_ms = max(self.deadline_ms, now_ms + self.timing.silence_ms)
        return effects

    def leader_named(self, leader: int, epoch: int, now_ms: int, *, sure: bool = False) -> ElectionEffects:
        """Somebody says that ``leader`` leads ``epoch``: worth a try, for the length of a round.

        A leader that we have given up gets a short try only: whoever names it may not have noticed yet. Where
        epochs jump, nobody voted: controllers name the leader now, perhaps us, and will say so themselves.
        What we would get by following that leader could make us believe that votes still count.
        """
        if leader == self.me or (not sure and epoch - self.epoch > self.hearsay_max):
            return []
        given_up = (leader, epoch) == self._given_up
        effects = self._attach(leader, epoch)
        if effects:
            self.deadline_ms = now_ms + (self._ask_ms() if given_up else 2 * self.timing.round_ms)
        return effects

    def _attach(self, leader: int, epoch: int) -> ElectionEffects:
        if epoch < self.epoch or (epoch == self.epoch and self.leader == leader):
            return []
        if epoch == self.epoch and self.state is ElectionState.LEADER:
            return []
        invariant(
            epoch > self.epoch or self.leader == NO_BROKER, "one leader per epoch", epoch, self.leader, leader
        )
        effects: ElectionEffects = []
        if epoch > self.epoch:
            self.epoch = epoch
            self.voted_for = NO_BROKER
            effects.append(SaveBallot(self.ballot))
        self.state = ElectionState.FOLLOWER
        self.leader = leader
        self.leader_heard_ms = NEVER_MS
        effects.append(Follow(epoch, leader))
        return effects

    def voter_heard(self, voter: int, now_ms: int) -> None:
        """While leading: a voter's fetch arrived, then."""
        self._heard[voter] = max(now_ms, self._heard.get(voter, NEVER_MS))
        self._unheard.discard(voter)

    def voter_confirmed(self, voter: int, sent_ms: int) -> None:
        """While leading: a voter follows in this epoch, and has what was sent to it then."""
        self._confirmed[voter] = max(sent_ms, self._confirmed.get(voter, NEVER_MS))

    def confirmed_ms(self) -> int:
        """While leading: until then nobody else can have been elected."""
        if self.state is not ElectionState.LEADER:
            return NEVER_MS
        others = [voter_id for voter_id in self.voters.ids if voter_id != self.me]
        needed = self.voters.majority - (len(self.voters.ids) - len(others))
        if not needed:
            return FOREVER_MS
        return sorted((self._confirmed.get(each, NEVER_MS) for each in others), reverse=True)[needed - 1]

    def is_silent(self, voter: int, now_ms: int) -> bool:
        """While leading: whether a voter was not heard of for so long that it is taken for dead."""
        return now_ms - self._heard.get(voter, now_ms) > self.timing.silence_ms

    def _newer_epoch(self, epoch: int, leader: int, now_ms: int, wait_ms: int) -> ElectionEffects:
        if leader not in (NO_BROKER, self.me):
            return self.leader_named(leader, epoch, now_ms)
        self.epoch = epoch
        self.voted_for = NO_BROKER
        self.leader = NO_BROKER
        self.state = ElectionState.UNATTACHED
        self.deadline_ms = now_ms + wait_ms
        return [SaveBallot(self.ballot), Follow(epoch, NO_BROKER)]


def _spread(least_ms: int, chance: float) -> int:
    return least_ms + int(chance * least_ms)
