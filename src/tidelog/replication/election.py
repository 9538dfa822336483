"""How replicas elect a leader: Raft's vote with a pre-vote, for a log that followers fetch.

=========== ==================================== ==========================================================
state       meaning                              leaves when
=========== ==================================== ==========================================================
unattached  no leader known in this epoch        a leader is known → follower; timeout → prospective
follower    a leader is known                    it is silent or its connection closes → prospective
prospective sends pre-votes                      a majority grants → candidate; timeout → asks again;
                                                 a better candidate sends a pre-vote → unattached
candidate   asks for votes in a new epoch        a majority grants → leader; timeout → prospective
leader      leads this epoch                     a higher epoch is seen, no majority was heard in time, or
                                                 it is not a voter any more → unattached
=========== ==================================== ==========================================================

The pre-vote keeps a replica that cannot win (partitioned, or behind) from raising the epoch and replacing a
leader that serves all others. It does not disturb such a leader, so it is sent early and often. A ballot
(epoch and vote) must be on disk before anything that follows from it is sent: effects after
:class:`SaveBallot` wait for the sync. Otherwise a crash would let a replica vote twice in one epoch.

An observer (not a voter, or a voter with another disk) sends pre-votes, too, only to learn who leads.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from enum import Enum
from uuid import UUID

from tidelog.invariant import invariant
from tidelog.machine import Machine
from tidelog.replication.voters import VoterSet
from tidelog.replication.votes import (
    Ballot,
    ElectionEffects,
    Follow,
    Lead,
    RequestVote,
    RespondToVote,
    SaveBallot,
    Tail,
    TellLeader,
    Timing,
    VoteRequest,
    VoteResponse,
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
        loss: int = -1,
    ) -> None:
        """``first_delay_ms``: delay before the first pre-vote; None: random."""
        self.me = me
        self.directory = directory
        self.voters = voters
        self.timing = timing
        self.epoch = ballot.epoch
        self.voted_for: int = ballot.voted_for
        self.leader: int = NO_BROKER
        self.state = ElectionState.UNATTACHED
        self.retired = False  # its disk has failed
        # It may lack records that it acknowledged, or not know how it voted. It neither votes nor stands for
        # election until the other voters have readmitted it.
        self.forgot = forgot
        # The number of our latest loss; -1: there is none, or it is not numbered yet.
        self.loss = loss
        # Another process leads under our id, or this replica led before it restarted.
        self.is_mistaken_for_leader = False
        # A leader that another replica names is believed only if its epoch is at most this far ahead of ours.
        self.hearsay_max = hearsay_max
        # It is not a voter any more, but the set that says so is not committed. The others may not have that
        # set yet and may wait for our vote forever, so this replica must be able to lead until they have it.
        self.needed = False
        self._granted: set[int] = set()
        self.starts: dict[int, int] = {}  # log start offsets of the voters that have voted for us
        self._refused: set[int] = set()
        self._born_ms = now_ms
        self._rounds = 0  # pre-vote rounds since a leader was last heard
        self._asking_since_ms = now_ms
        self._refused_ms = NEVER_MS  # when a voter with a longer log, or one that outranks us, last refused
        self._fresh = True  # until a leader is known: there may be one that we have not heard of
        self._heard: dict[int, int] = {}  # while leading: when each voter was last heard
        self._unheard: set[int] = set()  # while leading: voters not heard yet in this epoch
        # While leading: until when each voter is known not to have voted for another candidate. A message may
        # have been delayed for long, so this counts only what answers something that was sent at that time.
        self._confirmed: dict[int, int] = {}
        # While leading: when the present process of a voter began to follow, if that was in this epoch.
        self._began: dict[int, int] = {}
        # When the leader itself was last heard. Another replica's claim that it leads is a reason to try it,
        # not a proof: otherwise two followers could confirm a dead leader to each other forever.
        self.leader_heard_ms = NEVER_MS
        # when the leader was last taken for lost; earlier messages of it do not count
        self.doubted_ms = NEVER_MS
        # the leader that we last took for dead, and its epoch
        self._given_up: tuple[int, int] = (NO_BROKER, -1)
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
        """A leader that hears no majority cannot commit, and another leader may exist: it steps down."""
        if self.hears_majority(self.timing.majority_ms, now_ms):
            self.deadline_ms = now_ms + self.timing.silence_ms // 4
            return self._tell(self._unheard)
        return self.resign(now_ms)

    def hears_majority(self, within_ms: int, now_ms: int) -> bool:
        """While leading: whether enough voters were heard recently that no other leader can have been
        elected.
        """
        oldest, heard = now_ms - within_ms, self._heard
        missing = self.voters.majority
        for voter_id in self.voters.ids:  # This runs for every led partition, several times a second.
            if voter_id == self.me or heard.get(voter_id, NEVER_MS) >= oldest:
                missing -= 1
        return missing <= 0

    def _tell(self, voters: Iterable[int]) -> ElectionEffects:
        return [TellLeader(voter_id, self.epoch) for voter_id in sorted(voters) if voter_id != self.me]

    def resign(self, now_ms: int) -> ElectionEffects:
        """Step down, and let the others stand first."""
        if self.state is not ElectionState.LEADER:
            return []
        self.deadline_ms = now_ms + self.timing.round_ms
        return self._detach()

    def retire(self) -> ElectionEffects:
        """The disk accepts no writes: neither lead nor vote from now on."""
        self.retired = True
        if self.state in (ElectionState.PROSPECTIVE, ElectionState.CANDIDATE):
            self.state = ElectionState.UNATTACHED
        return self._detach() if self.state is ElectionState.LEADER else []

    def resume(self) -> None:
        """The log accepts writes again."""
        self.retired = False

    def stalled(self, now_ms: int) -> None:
        """Our own process was stalled (a busy machine, a long garbage collection). Messages of the others are
        still unread, so they are not judged silent before those are read.
        """
        timing = self.timing
        if self.state is ElectionState.LEADER:
            oldest = now_ms - timing.majority_ms + timing.stall_grace_ms
            self._heard = {voter: max(heard_ms, oldest) for voter, heard_ms in self._heard.items()}
        elif self.state is ElectionState.FOLLOWER and self.leader_heard_ms != NEVER_MS:
            self.deadline_ms = max(self.deadline_ms, now_ms + timing.stall_grace_ms)

    def set_timing(self, timing: Timing) -> None:
        """Applies to decisions from now on."""
        self.timing = timing

    def hurry(self, now_ms: int) -> None:
        """Let the deadline expire now."""
        self.deadline_ms = min(self.deadline_ms, now_ms)

    def leader_lost(self, leader: int, now_ms: int, chance: float) -> None:
        """Its connection closed. This reveals a dead process long before the silence timeout."""
        if self.state is ElectionState.FOLLOWER and self.leader == leader:
            self.leader_heard_ms = NEVER_MS
            self.doubted_ms = now_ms
            self.deadline_ms = min(self.deadline_ms, now_ms + _spread(self.timing.grace_ms, chance))

    def _detach(self) -> ElectionEffects:
        self._given_up = self.leader, self.epoch
        self.state = ElectionState.UNATTACHED
        self.leader = NO_BROKER
        return [Follow(self.epoch, NO_BROKER)]

    # --- voters ---------------------------------------------------------------------------------------------

    def change_voters(self, voters: VoterSet, now_ms: int, *, needed: bool = False) -> None:
        """The log contains a new voter set. A leader that is not in it leads until the set is committed; then
        its owner calls :meth:`resign`. ``needed``: see the field.
        """
        self.voters = voters
        self.needed = needed
        if self.state is ElectionState.LEADER:
            self._heard = {voter_id: self._heard.get(voter_id, now_ms) for voter_id in voters.ids}
            self._unheard &= voters.ids
        elif self.state in (ElectionState.PROSPECTIVE, ElectionState.CANDIDATE) and not self.may_stand:
            self.state = ElectionState.UNATTACHED

    def set_needed(self, needed: bool) -> None:
        """See the field: a set without this replica was written or committed."""
        self.needed = needed

    def set_forgot(self, forgot: bool, loss: int = -1) -> None:
        """See the fields: this replica has dropped records, its loss was numbered, or it was readmitted."""
        self.forgot = forgot
        self.loss = loss

    # --- asking for votes -----------------------------------------------------------------------------------

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
        """Retried soon, then less and less often: responses may need longer than expected."""
        return min(self.timing.ask_ms << min(self._rounds, 8), self.timing.round_ms)

    def _promised_enough(self, now_ms: int, tail: Tail) -> bool:
        """Whether the granted pre-votes allow this replica to ask for votes.

        A majority is enough, with one exception: a process that has just started waits a moment for the other
        voters, because one that has not answered yet may be the leader. Where the log is empty it waits
        longer, and each refusal prolongs the wait: the voter that refused may know of records.
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
        # The requests need not wait for our own ballot: only this process counts the responses, and it counts
        # them, and its own vote, after the ballot is on disk.
        effects = self._ask_all(self.epoch, tail, pre=False)
        effects += [SaveBallot(self.ballot), Follow(self.epoch, NO_BROKER)]
        return effects + self._win(now_ms) if self._is_majority(self._granted) else effects

    def _begin_round(self) -> None:
        self._granted = {self.me}
        self._refused = set()
        self.starts = {}

    def _ask_all(self, epoch: int, tail: Tail, *, pre: bool) -> ElectionEffects:
        return [
            self._ask(voter.voter_id, epoch, tail, pre=pre)
            for voter in self.voters
            if voter.voter_id != self.me
        ]

    def _ask(self, voter_id: int, epoch: int, tail: Tail, *, pre: bool) -> RequestVote:
        voter = self.voters.get(voter_id)
        directory, heals = (None, -1) if voter is None else (voter.directory, voter.heals)
        return RequestVote(voter_id, VoteRequest(epoch, self.me, tail, pre, self.directory, directory, heals))

    def vote_responded(
        self, response: VoteResponse, now_ms: int, chance: float, tail: Tail
    ) -> ElectionEffects:
        """A response to one of our requests. Late ones, from another epoch or of another kind, are
        ignored.
        """
        self.is_mistaken_for_leader = response.leader == self.me and self.state is not ElectionState.LEADER
        if response.epoch > self.epoch:
            return self._newer_epoch(response.epoch, response.leader, now_ms, _spread(self._ask_ms(), chance))
        if response.epoch < self.epoch or response.voter not in self.voters or self.leader != NO_BROKER:
            return []
        if not response.granted and response.leader not in (NO_BROKER, self.me):
            return self.leader_hinted(response.leader, response.epoch, now_ms)
        if self.state is not (ElectionState.PROSPECTIVE if response.pre else ElectionState.CANDIDATE):
            return []
        (self._granted if response.granted else self._refused).add(response.voter)
        if not response.granted:
            self._refused_ms = now_ms
        else:
            self.starts[response.voter] = response.start_offset
        if response.pre:
            return self.ask_votes(now_ms, chance, tail) if self._promised_enough(now_ms, tail) else []
        if self._is_majority(self._granted):
            return self._win(now_ms)
        if not self._is_majority(self.voters.ids - self._refused - {self._given_up[0]}):
            # This election is lost: the votes are split. Ask again soon, but with a random delay, so as not
            # to collide with the other losers.
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
        self._began = {}
        self.deadline_ms = now_ms + self.timing.silence_ms // 4
        return [Lead(self.epoch), *self._tell(self._unheard)]

    def stand_now(self, leader: int, epoch: int, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """The leader hands over to this replica, so no pre-vote is needed."""
        if self.state is not ElectionState.FOLLOWER or (leader, epoch) != (self.leader, self.epoch):
            return []
        return self.ask_votes(now_ms, chance, tail) if self.may_stand and not self.retired else []

    # --- answering vote requests ----------------------------------------------------------------------------

    def vote_requested(self, request: VoteRequest, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        effects: ElectionEffects = []
        if request.epoch > self.epoch:
            # Also for a pre-vote: a replica in a higher epoch than its leader could not follow any leader.
            wait_ms = _spread(self.timing.round_ms, chance)
            effects = self._newer_epoch(request.epoch, NO_BROKER, now_ms, wait_ms)
        if request.pre:
            granted = self._would_elect(request, now_ms, chance, tail)
            if not granted:
                effects += self._ask_instead(request, now_ms, chance, tail)
        else:
            granted = self._grant(request, now_ms, tail)
        if granted and not request.pre:
            self.voted_for = request.candidate
            self.deadline_ms = now_ms + _spread(self.timing.round_ms, chance)
            effects.append(SaveBallot(self.ballot))
        leader = self.leader if self._hears_leader(now_ms) else NO_BROKER
        response = VoteResponse(self.me, self.epoch, granted, leader, request.pre)
        effects.append(RespondToVote(request.candidate, response))
        return effects

    def _is_meant(self, request: VoteRequest, now_ms: int, tail: Tail) -> bool:
        """Whether a vote request is meant for this voter with this disk. With another disk it has forgotten
        how it voted and what it acknowledged, and must not help to elect a replica that lacks that.

        A candidate that does not know our disk may have missed what was decided since the disk became known.
        While our log is empty, we may be the voter that lost its data: at first we only help to found a
        cluster, and wait some time for a voter that knows more.
        """
        if self.retired or (self.forgot and not self._is_readmitted_by(request)):
            return False
        if self.directory is None:
            return True
        if request.voter_directory is not None:
            return request.voter_directory == self.directory
        if tail.end_offset > 0:
            return self.is_voter
        return request.tail.end_offset == 0 or now_ms - self._born_ms >= self.timing.founding_ms

    def _is_readmitted_by(self, request: VoteRequest) -> bool:
        """Whether the candidate's log shows that this replica was readmitted for its latest loss. Our own log
        may lack that set. The set is in force for the candidate, which may need our vote to get a majority.

        This is safe. The candidate has the set, so it has everything that was committed before it. What we
        have acknowledged since the loss is in our log, which is compared as always.
        """
        return self.loss >= 0 and request.heals == self.loss

    def _would_elect(self, request: VoteRequest, now_ms: int, chance: float, tail: Tail) -> bool:
        """Not while we hear a leader: the candidate may only be partitioned from it.

        Of two that send pre-votes at the same time, the one with the longer log, then the one with the lower
        id continues. The other yields: if both continued, the votes would be split.
        """
        if request.epoch < self.epoch or request.tail < tail or not self._is_meant(request, now_ms, tail):
            return False
        if self._hears_leader(now_ms):
            return False
        if self.state is ElectionState.PROSPECTIVE and request.candidate in self.voters:
            if (request.tail, -request.candidate) < (tail, -self.me):
                return False
            self.state = ElectionState.UNATTACHED
            self.deadline_ms = now_ms + _spread(self.timing.round_ms, chance)
        return True

    def _ask_instead(self, request: VoteRequest, now_ms: int, chance: float, tail: Tail) -> ElectionEffects:
        """If we refused because we are the better candidate, send our own pre-vote."""
        outranked = (request.tail, -request.candidate) < (tail, -self.me)
        if not outranked or request.candidate not in self.voters or not self.may_stand:
            return []
        if self.state is ElectionState.PROSPECTIVE and request.epoch == self.epoch:
            # It may not have been running when we sent our pre-votes.
            return [self._ask(request.candidate, self.epoch, tail, pre=True)]
        if self.state is ElectionState.UNATTACHED and request.tail < tail:
            self.deadline_ms = min(self.deadline_ms, now_ms + _spread(self.timing.grace_ms, chance))
        return []

    def _hears_leader(self, now_ms: int) -> bool:
        if self.state is ElectionState.LEADER:
            return True
        return self.leader != NO_BROKER and now_ms - self.leader_heard_ms < self.timing.trust_ms

    def _grant(self, request: VoteRequest, now_ms: int, tail: Tail) -> bool:
        if request.epoch < self.epoch or self.leader != NO_BROKER:
            return False
        if not self._is_meant(request, now_ms, tail):
            return False
        # One vote per epoch. The same candidate gets the same response again, since the first may have been
        # lost.
        if self.voted_for not in (NO_BROKER, request.candidate):
            return False
        return request.tail >= tail

    # --- learning of leaders --------------------------------------------------------------------------------

    def leader_heard(self, leader: int, epoch: int, now_ms: int) -> ElectionEffects:
        """The leader of ``epoch`` itself has sent us a message."""
        effects = self._attach(leader, epoch)
        if self.leader == leader and self.epoch == epoch:
            self.still_heard(now_ms)
        return effects

    def still_heard(self, now_ms: int) -> None:
        """The leader that we follow was heard again."""
        if self.state is ElectionState.FOLLOWER:
            self.leader_heard_ms = now_ms
            self._fresh = False
            self._rounds = 0
            # The message may be reported late, and a stall since then may have extended the deadline already.
            self.deadline_ms = max(self.deadline_ms, now_ms + self.timing.silence_ms)

    def leader_hinted(
        self, leader: int, epoch: int, now_ms: int, *, certain: bool = False
    ) -> ElectionEffects:
        """Another replica says that ``leader`` leads ``epoch``: worth a try, for the length of a round.

        A leader that we have given up gets only a short try: the replica that names it may not have noticed
        yet. Where epochs jump, there was no vote: the controllers appoint the leader now, perhaps us, and
        will tell us themselves. What we would fetch from that leader could make us believe that votes still
        count.
        """
        if leader == self.me or (not certain and epoch - self.epoch > self.hearsay_max):
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
        """While leading: a voter's fetch arrived at ``now_ms``."""
        self._heard[voter] = max(now_ms, self._heard.get(voter, NEVER_MS))
        self._unheard.discard(voter)

    def voter_confirmed(self, voter: int, sent_ms: int) -> None:
        """While leading: a voter follows in this epoch, and has received what was sent to it at
        ``sent_ms``.
        """
        self._confirmed[voter] = max(sent_ms, self._confirmed.get(voter, NEVER_MS))

    def voter_began(self, voter: int, now_ms: int) -> None:
        """While leading: another process of a voter begins to follow."""
        self._began[voter] = now_ms

    def confirmed_ms(self) -> int:
        """While leading: until when it is certain that no other leader was elected."""
        return self._by_majority(lambda voter: self._confirmed.get(voter, NEVER_MS))

    def followed_ms(self, at_least_ms: int) -> int:
        """The same, by voters whose process had already followed for ``at_least_ms`` then."""

        def confirmed(voter: int) -> int:
            confirmed_ms = self._confirmed.get(voter, NEVER_MS)
            began_ms = self._began.get(voter, NEVER_MS)
            return confirmed_ms if confirmed_ms >= began_ms + at_least_ms else NEVER_MS

        return self._by_majority(confirmed)

    def _by_majority(self, until_ms: Callable[[int], int]) -> int:
        """Until when a majority, with this leader, has followed, given until when each of the others has."""
        if self.state is not ElectionState.LEADER:
            return NEVER_MS
        others = [voter_id for voter_id in self.voters.ids if voter_id != self.me]
        needed = self.voters.majority - (len(self.voters.ids) - len(others))
        if not needed:
            return FOREVER_MS
        return sorted(map(until_ms, others), reverse=True)[needed - 1]

    def is_silent(self, voter: int, now_ms: int) -> bool:
        """While leading: whether a voter has been silent for so long that it is taken for dead."""
        return now_ms - self._heard.get(voter, now_ms) > self.timing.silence_ms

    def _newer_epoch(self, epoch: int, leader: int, now_ms: int, wait_ms: int) -> ElectionEffects:
        if leader not in (NO_BROKER, self.me):
            return self.leader_hinted(leader, epoch, now_ms)
        self.epoch = epoch
        self.voted_for = NO_BROKER
        self.leader = NO_BROKER
        self.state = ElectionState.UNATTACHED
        self.deadline_ms = now_ms + wait_ms
        return [SaveBallot(self.ballot), Follow(epoch, NO_BROKER)]


def _spread(least_ms: int, chance: float) -> int:
    return least_ms + int(chance * least_ms)
