"""How voters elect: each rule of the module's table, one voter at a time."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.replication.election import Election, ElectionState
from tidelog.replication.voters import Voter, VoterSet
from tidelog.replication.votes import (
    Ballot,
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

VOTERS = VoterSet.of([1, 2, 3])
TIMING = Timing(
    silence_ms=1000, majority_ms=1500, trust_ms=600, ask_ms=40, round_ms=300, grace_ms=30, stall_grace_ms=500
)
TAIL = Tail(last_epoch=4, end_offset=10)
EMPTY = Tail(last_epoch=-1, end_offset=0)
OLD_DISK, NEW_DISK = UUID(int=1), UUID(int=2)


def voter(
    ballot: Ballot = Ballot(),  # noqa: B008
    voters: VoterSet = VOTERS,
    *,
    me: int = 1,
    timing: Timing = TIMING,
    directory: UUID | None = None,
) -> Election:
    return Election(me, voters, ballot, timing, now_ms=0, chance=0.0, directory=directory)


def after_silence(election: Election, tail: Tail = TAIL) -> list[Any]:
    return election.tick(election.deadline_ms, 0.0, tail)


def kinds(effects: list[Any]) -> list[type]:
    return [type(effect) for effect in effects]


def asked(effects: list[Any]) -> list[tuple[int, bool]]:
    """Who was asked, and whether it was only a question."""
    return [(effect.voter, effect.request.pre) for effect in effects if isinstance(effect, RequestVote)]


def candidate() -> Election:
    election = voter(Ballot(4))
    after_silence(election)
    election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), 400, 0.0, TAIL)
    return election


def leader() -> Election:
    election = candidate()
    election.vote_responded(VoteResponse(3, 5, True, -1, pre=False), 450, 0.0, TAIL)
    return election


def follower(heard_ms: int = 1000) -> Election:
    election = voter(Ballot(4))
    election.leader_heard(3, 4, heard_ms)
    return election


class TestAsking:
    def test_nothing_happens_before_the_deadline(self) -> None:
        election = voter()
        assert election.tick(election.deadline_ms - 1, 0.0, TAIL) == []

    def test_first_everybody_is_asked_whether_they_would(self) -> None:
        election = voter(Ballot(4))
        ask = VoteRequest(4, 1, TAIL, pre=True)
        assert after_silence(election) == [RequestVote(2, ask), RequestVote(3, ask)]
        assert election.state is ElectionState.PROSPECTIVE
        assert election.ballot == Ballot(4)  # A question commits to nothing.

    def test_a_question_comes_soon_and_then_less_and_less_often(self) -> None:
        election = voter()
        waits = []
        for _ in range(6):
            now_ms = election.deadline_ms
            after_silence(election)
            waits.append(election.deadline_ms - now_ms)
        assert waits == [40, 80, 160, 300, 300, 300]

    def test_a_majority_of_promises_begins_an_election(self) -> None:
        election = voter(Ballot(4))
        after_silence(election)
        effects = election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), 400, 0.0, TAIL)
        # The questions may leave before our ballot is on disk; nothing that counts the answers may.
        assert kinds(effects) == [RequestVote, RequestVote, SaveBallot, Follow]
        assert effects[2] == SaveBallot(Ballot(5, 1))
        assert election.state is ElectionState.CANDIDATE

    def test_a_majority_of_votes_makes_a_leader_that_says_so(self) -> None:
        election = candidate()
        effects = election.vote_responded(VoteResponse(3, 5, True, -1, pre=False), 450, 0.0, TAIL)
        assert effects == [Lead(5), TellLeader(2, 5), TellLeader(3, 5)]
        assert (election.state, election.leader) == (ElectionState.LEADER, 1)

    def test_it_knows_where_the_logs_of_its_voters_begin(self) -> None:
        election = candidate()
        election.vote_responded(VoteResponse(2, 5, False, -1, pre=False, start_offset=9), 450, 0.0, TAIL)
        election.vote_responded(VoteResponse(3, 5, True, -1, pre=False, start_offset=7), 450, 0.0, TAIL)
        assert election.starts == {3: 7}

    def test_one_voter_elects_itself_at_once(self) -> None:
        election = voter(voters=VoterSet.of([1]))
        assert kinds(election.tick(0, 0.9, EMPTY)) == [SaveBallot, Follow, Lead]

    def test_five_voters_need_three(self) -> None:
        election = voter(Ballot(4), VoterSet.of([1, 2, 3, 4, 5]))
        after_silence(election)
        assert election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), 400, 0.0, TAIL) == []
        assert (
            election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), 400, 0.0, TAIL) == []
        )  # Not twice.
        assert election.vote_responded(VoteResponse(3, 4, True, -1, pre=True), 400, 0.0, TAIL)

    @pytest.mark.parametrize(
        "late",
        [
            VoteResponse(2, 4, True, -1, pre=False),
            VoteResponse(2, 5, True, -1, pre=True),
            VoteResponse(9, 5, True, -1, pre=False),
        ],
        ids=["an older epoch", "a promise", "a stranger"],
    )
    def test_what_does_not_count(self, late: VoteResponse) -> None:
        election = candidate()
        assert election.vote_responded(late, 450, 0.0, TAIL) == []
        assert election.state is ElectionState.CANDIDATE

    def test_a_higher_epoch_ends_every_hope(self) -> None:
        election = candidate()
        effects = election.vote_responded(VoteResponse(2, 9, False, -1, pre=False), 450, 0.0, TAIL)
        assert effects == [SaveBallot(Ballot(9)), Follow(9, -1)]
        assert election.state is ElectionState.UNATTACHED

    def test_who_was_refused_by_a_majority_does_not_wait_for_the_rest(self) -> None:
        election = candidate()
        election.vote_responded(VoteResponse(2, 5, False, -1, pre=False), 450, 0.0, TAIL)
        before = election.deadline_ms
        election.vote_responded(VoteResponse(3, 5, False, -1, pre=False), 450, 0.0, TAIL)
        assert election.deadline_ms == 490 < before
        assert asked(after_silence(election)) == [(2, True), (3, True)]


class TestBeginning:
    """A process that has just begun does not know whether there is a leader."""

    def test_who_has_just_begun_first_hears_everybody_out(self) -> None:
        election = voter(Ballot(4))
        now_ms = election.deadline_ms
        after_silence(election)
        assert election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), now_ms + 1, 0.0, TAIL) == []
        named = election.vote_responded(VoteResponse(3, 4, False, 3, pre=True), now_ms + 2, 0.0, TAIL)
        assert named == [Follow(4, 3)]

    def test_silence_is_an_answer_after_a_while(self) -> None:
        election = voter(Ballot(4))
        after_silence(election)
        election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), election.deadline_ms - 1, 0.0, TAIL)
        assert election.state is ElectionState.PROSPECTIVE
        assert asked(after_silence(election)) == [(2, False), (3, False)]

    def test_a_majority_of_empty_disks_waits_for_the_one_that_may_know_more(self) -> None:
        """Two wiped disks of three must not found another cluster while the third holds the old one."""
        election = voter(timing=TIMING._replace(founding_ms=3000))
        founded_ms = None
        while founded_ms is None and election.deadline_ms < 20_000:
            now_ms = election.deadline_ms
            after_silence(election, EMPTY)
            election.vote_responded(VoteResponse(2, 0, True, -1, pre=True), now_ms, 0.0, EMPTY)
            if now_ms < 5000:
                election.vote_responded(VoteResponse(3, 0, False, -1, pre=True), now_ms, 0.0, EMPTY)
            if election.state is ElectionState.CANDIDATE:
                founded_ms = now_ms
        assert founded_ms is not None
        assert 5000 - TIMING.round_ms + 3000 <= founded_ms <= 5000 + 3000 + TIMING.round_ms

    def test_all_together_found_a_cluster_at_once(self) -> None:
        election = voter(timing=TIMING._replace(founding_ms=3000))
        after_silence(election, EMPTY)
        assert election.vote_responded(VoteResponse(2, 0, True, -1, pre=True), 30, 0.0, EMPTY) == []
        effects = election.vote_responded(VoteResponse(3, 0, True, -1, pre=True), 31, 0.0, EMPTY)
        assert asked(effects) == [(2, False), (3, False)]


class TestBeingAsked:
    def ask(self, election: Election, ask: VoteRequest, now_ms: int = 100, tail: Tail = TAIL) -> VoteResponse:
        answer = election.vote_requested(ask, now_ms, 0.0, tail)[-1]
        assert isinstance(answer, RespondToVote)
        return answer.response

    def test_the_vote_leaves_behind_its_ballot(self) -> None:
        effects = voter(Ballot(4)).vote_requested(VoteRequest(5, 2, TAIL, False), 100, 0.0, TAIL)
        assert kinds(effects) == [SaveBallot, Follow, SaveBallot, RespondToVote]
        assert effects[2] == SaveBallot(Ballot(5, 2))

    def test_one_vote_per_epoch(self) -> None:
        election = voter(Ballot(5, 2))
        assert not self.ask(election, VoteRequest(5, 3, TAIL, False)).granted
        assert self.ask(
            election, VoteRequest(5, 2, TAIL, False)
        ).granted  # The answer was lost: the same again.

    @pytest.mark.parametrize(
        ("tail", "granted"),
        [
            (Tail(4, 10), True),
            (Tail(4, 11), True),
            (Tail(5, 1), True),
            (Tail(4, 9), False),
            (Tail(3, 99), False),
        ],
    )
    @pytest.mark.parametrize("pre", [True, False])
    def test_only_a_complete_log_is_elected(self, tail: Tail, granted: bool, pre: bool) -> None:
        assert self.ask(voter(Ballot(4)), VoteRequest(4 if pre else 5, 2, tail, pre)).granted is granted

    def test_an_older_epoch_is_told_the_present_one(self) -> None:
        assert self.ask(voter(Ballot(7)), VoteRequest(6, 2, TAIL, False)) == VoteResponse(
            1, 7, False, -1, False
        )

    def test_who_hears_the_leader_does_not_help_to_replace_it(self) -> None:
        election = follower(heard_ms=100)
        assert self.ask(election, VoteRequest(4, 2, TAIL, True), 200) == VoteResponse(1, 4, False, 3, True)

    def test_who_has_not_heard_it_for_a_while_does(self) -> None:
        """Sooner than it would ask itself: others may have heard its last words a little earlier."""
        election = follower(heard_ms=100)
        assert not self.ask(election, VoteRequest(4, 2, TAIL, True), 100 + TIMING.trust_ms - 1).granted
        assert self.ask(election, VoteRequest(4, 2, TAIL, True), 100 + TIMING.trust_ms).granted
        assert election.state is ElectionState.FOLLOWER

    def test_hearsay_is_no_reason_to_refuse(self) -> None:
        """Or two followers could assure each other of a dead leader for ever."""
        election = voter(Ballot(4))
        election.leader_hinted(3, 4, 100)
        assert (election.state, election.leader) == (ElectionState.FOLLOWER, 3)
        assert self.ask(election, VoteRequest(4, 2, TAIL, True), 110) == VoteResponse(1, 4, True, -1, True)

    def test_a_promise_changes_nothing(self) -> None:
        election = voter(Ballot(4, 3))
        self.ask(election, VoteRequest(4, 2, TAIL, True))
        assert election.ballot == Ballot(4, 3)

    def test_a_question_from_a_later_epoch_is_news_to_a_leader(self) -> None:
        """Or whoever got ahead of it could never follow it."""
        election = leader()
        effects = election.vote_requested(VoteRequest(6, 2, TAIL, True), 500, 0.0, TAIL)
        assert effects[:2] == [SaveBallot(Ballot(6)), Follow(6, -1)]
        assert election.state is ElectionState.UNATTACHED


class TestYielding:
    """Of two that ask at the same time, one goes on: both would split the votes."""

    def prospective(self, me: int) -> Election:
        election = voter(Ballot(4), me=me)
        after_silence(election)
        assert election.state is ElectionState.PROSPECTIVE
        return election

    def test_the_higher_number_yields(self) -> None:
        election = self.prospective(me=2)
        effects = election.vote_requested(VoteRequest(4, 1, TAIL, True), 50, 0.0, TAIL)
        assert effects == [RespondToVote(1, VoteResponse(2, 4, True, -1, True))]
        assert election.state is ElectionState.UNATTACHED
        assert election.vote_responded(VoteResponse(3, 4, True, -1, pre=True), 51, 0.0, TAIL) == []

    def test_the_lower_number_goes_on_and_asks_again(self) -> None:
        election = self.prospective(me=1)
        effects = election.vote_requested(VoteRequest(4, 2, TAIL, True), 50, 0.0, TAIL)
        assert asked(effects) == [(2, True)]  # It may not have been there when we asked.
        assert effects[-1] == RespondToVote(2, VoteResponse(1, 4, False, -1, True))
        assert election.state is ElectionState.PROSPECTIVE

    def test_the_longer_log_counts_more_than_the_number(self) -> None:
        election = self.prospective(me=1)
        longer = Tail(TAIL.last_epoch, TAIL.end_offset + 1)
        [answer] = election.vote_requested(VoteRequest(4, 3, longer, True), 50, 0.0, TAIL)
        assert answer == RespondToVote(3, VoteResponse(1, 4, True, -1, True))
        assert election.state is ElectionState.UNATTACHED

    def test_nobody_yields_to_an_observer(self) -> None:
        election = self.prospective(me=2)
        election.vote_requested(VoteRequest(4, 0, TAIL, True), 50, 0.0, TAIL)
        assert election.state is ElectionState.PROSPECTIVE

    def test_who_holds_more_than_the_asker_asks_soon_itself(self) -> None:
        election = voter(Ballot(4))
        election.deadline_ms = 5000
        election.vote_requested(VoteRequest(4, 2, Tail(4, 9), True), 50, 0.0, TAIL)
        assert election.deadline_ms == 50 + TIMING.grace_ms


class TestLeading:
    def test_a_leader_that_hears_no_majority_steps_down(self) -> None:
        election = leader()
        now_ms = 450
        while election.state is ElectionState.LEADER and now_ms < 5000:
            now_ms = election.deadline_ms
            effects = election.tick(now_ms, 0.0, TAIL)
        assert effects == [Follow(5, -1)]
        assert 450 + TIMING.majority_ms < now_ms <= 450 + TIMING.majority_ms + TIMING.silence_ms // 4 + 1

    def test_one_follower_of_two_is_enough(self) -> None:
        election = leader()
        for now_ms in range(500, 6000, 100):
            election.voter_heard(2, now_ms)
            election.tick(now_ms, 0.0, TAIL)
        assert election.state is ElectionState.LEADER

    def test_it_tells_of_itself_until_it_is_heard(self) -> None:
        election = leader()
        election.voter_heard(2, 500)
        assert election.tick(election.deadline_ms, 0.0, TAIL) == [TellLeader(3, 5)]
        election.voter_heard(3, 800)
        assert election.tick(election.deadline_ms, 0.0, TAIL) == []

    def test_after_a_standstill_of_its_own_nobody_is_judged_at_once(self) -> None:
        election = leader()
        now_ms = 450 + 10 * TIMING.majority_ms
        election.stalled(now_ms)
        election.tick(now_ms, 0.0, TAIL)
        assert election.state is ElectionState.LEADER
        election.deadline_ms = now_ms + TIMING.stall_grace_ms + 1
        assert after_silence(election) == [Follow(5, -1)]

    def test_a_new_leader_is_followed(self) -> None:
        assert leader().leader_heard(2, 6, 900) == [SaveBallot(Ballot(6)), Follow(6, 2)]
        assert leader().leader_heard(2, 4, 900) == []

    def test_a_failed_disk_ends_it_for_good(self) -> None:
        election = leader()
        assert election.retire() == [Follow(5, -1)]
        assert election.tick(100_000, 0.0, TAIL) == []
        answer = election.vote_requested(VoteRequest(6, 2, TAIL, False), 100_000, 0.0, TAIL)[-1]
        assert isinstance(answer, RespondToVote)
        assert not answer.response.granted

    def test_a_failed_disk_ends_a_candidacy(self) -> None:
        """The votes that are under way would elect one that clients do not find."""
        election = candidate()
        assert election.retire() == []
        granted = VoteResponse(3, 5, True, -1, pre=False)
        assert election.vote_responded(granted, 450, 0.0, TAIL) == []
        assert election.state is ElectionState.UNATTACHED


class TestConfirming:
    def leader(self, voters: VoterSet = VOTERS) -> Election:
        election = voter(Ballot(4), voters)
        election.state = ElectionState.LEADER
        return election

    def test_until_then_a_majority_followed(self) -> None:
        election = self.leader(VoterSet.of([1, 2, 3, 4, 5]))
        election.voter_confirmed(2, 700)
        assert election.confirmed_ms() < 0
        election.voter_confirmed(3, 500)
        assert election.confirmed_ms() == 500
        election.voter_confirmed(4, 600)
        election.voter_confirmed(4, 400)  # An earlier one that arrives late.
        assert election.confirmed_ms() == 600

    def test_until_then_a_majority_followed_in_processes_that_had_run_for_a_while(self) -> None:
        election = self.leader()
        election.voter_confirmed(2, 500)
        assert election.followed_ms(300) == 500
        election.voter_began(2, 600)
        election.voter_confirmed(2, 899)
        assert election.followed_ms(300) < 0
        assert election.confirmed_ms() == 899
        election.voter_confirmed(2, 900)
        assert election.followed_ms(300) == 900

    def test_one_that_restarts_again_and_again_delays_nothing_beside_a_majority(self) -> None:
        election = self.leader()
        election.voter_confirmed(3, 700)
        election.voter_began(2, 600)
        election.voter_confirmed(2, 800)
        assert election.followed_ms(300) == 700

    def test_that_a_voter_is_heard_says_nothing_about_when_it_spoke(self) -> None:
        election = self.leader()
        election.voter_heard(2, 900)
        assert election.confirmed_ms() < 0

    def test_a_voter_on_its_own_needs_nobody(self) -> None:
        assert self.leader(VoterSet.of([1])).confirmed_ms() > 1 << 60

    def test_who_leads_no_more_is_sure_of_nothing(self) -> None:
        election = self.leader()
        election.voter_confirmed(2, 500)
        election.resign(600)
        assert election.confirmed_ms() < 0


class TestLosingTheLeader:
    def test_a_closed_connection_is_noticed_before_the_silence(self) -> None:
        election = follower(heard_ms=1000)
        election.leader_lost(2, 1100, 0.0)
        assert election.deadline_ms == 2000
        election.leader_lost(3, 1100, 0.0)
        assert election.deadline_ms == 1100 + TIMING.grace_ms
        effects = after_silence(election)
        assert effects[0] == Follow(4, -1)
        assert asked(effects) == [(2, True), (3, True)]

    def test_it_is_replaced_by_a_majority_without_waiting_for_the_rest(self) -> None:
        election = follower()
        election.leader_lost(3, 1100, 0.0)
        after_silence(election)
        effects = election.vote_responded(VoteResponse(2, 4, True, -1, pre=True), 1131, 0.0, TAIL)
        assert asked(effects) == [(2, False), (3, False)]

    def test_somebody_who_has_not_noticed_costs_little(self) -> None:
        """It names the dead leader, which is tried again, but not for long."""
        election = follower()
        election.leader_lost(3, 1100, 0.0)
        after_silence(election)
        assert election.vote_responded(VoteResponse(2, 4, False, 3, pre=True), 1131, 0.0, TAIL) == [
            Follow(4, 3)
        ]
        assert election.deadline_ms <= 1131 + 2 * TIMING.ask_ms

    def test_a_leader_that_others_name_is_given_time(self) -> None:
        election = voter(Ballot(4))
        election.leader_hinted(3, 4, 100)
        assert election.deadline_ms == 100 + 2 * TIMING.round_ms

    def test_after_a_standstill_of_its_own_a_follower_waits(self) -> None:
        """What the leader said meanwhile lies unread in the socket."""
        election = follower(heard_ms=1000)
        election.stalled(5000)
        assert election.tick(5000, 0.0, TAIL) == []
        assert election.deadline_ms == 5000 + TIMING.stall_grace_ms

    def test_but_not_for_a_leader_whose_connection_closed(self) -> None:
        election = follower(heard_ms=1000)
        election.leader_lost(3, 1100, 0.0)
        election.stalled(5000)
        assert asked(election.tick(5000, 0.0, TAIL)) == [(2, True), (3, True)]


class TestVoters:
    def test_a_voter_with_another_disk_does_not_vote(self) -> None:
        """It has forgotten how it voted, and what it acknowledged."""
        election = voter(Ballot(4), directory=NEW_DISK)
        ask = VoteRequest(5, 2, TAIL, False, voter_directory=OLD_DISK)
        answer = election.vote_requested(ask, 100, 0.0, EMPTY)[-1]
        assert isinstance(answer, RespondToVote)
        assert not answer.response.granted
        assert election.ballot == Ballot(5)

    @pytest.mark.parametrize("pre", [True, False], ids=["pre-vote", "vote"])
    @pytest.mark.parametrize(
        ("loss", "heals", "granted"),
        [(7, 7, True), (7, -1, False), (8, 7, False), (7, 8, False), (-1, 7, False), (-1, -1, False)],
    )
    def test_one_that_forgot_votes_for_a_candidate_that_knows_of_its_readmission(
        self, loss: int, heals: int, granted: bool, pre: bool
    ) -> None:
        """For the latest loss, and not for one that has no number yet."""
        election = voter(Ballot(5))
        election.set_forgot(True, loss)
        answer = election.vote_requested(VoteRequest(5, 2, TAIL, pre, heals=heals), 1000, 0.0, TAIL)[-1]
        assert isinstance(answer, RespondToVote)
        assert answer.response.granted is granted
        assert not election.may_stand

    def test_a_further_loss_ends_that(self) -> None:
        election = voter(Ballot(4))
        election.set_forgot(True, 7)
        election.set_forgot(True)
        answer = election.vote_requested(VoteRequest(5, 2, TAIL, False, heals=7), 1000, 0.0, TAIL)[-1]
        assert isinstance(answer, RespondToVote)
        assert not answer.response.granted

    def test_not_for_one_that_has_less(self) -> None:
        election = voter(Ballot(4))
        election.set_forgot(True, 7)
        shorter = TAIL._replace(end_offset=TAIL.end_offset - 1)
        answer = election.vote_requested(VoteRequest(5, 2, shorter, False, heals=7), 1000, 0.0, TAIL)[-1]
        assert isinstance(answer, RespondToVote)
        assert not answer.response.granted

    def test_a_candidate_says_for_which_loss_a_voter_was_readmitted(self) -> None:
        election = voter(Ballot(4), VoterSet([Voter(1), Voter(2, heals=7), Voter(3)]))
        asks = {effect.voter: effect.request for effect in after_silence(election)}
        assert asks[2].heals == 7
        assert asks[3].heals == -1

    def test_a_voter_with_another_disk_does_not_ask(self) -> None:
        voters = VoterSet([Voter(1, OLD_DISK), Voter(2), Voter(3)])
        election = voter(Ballot(4), voters, directory=NEW_DISK)
        assert not election.is_voter
        assert asked(after_silence(election)) == [(2, True), (3, True)]  # Only to hear who leads.
        assert election.state is ElectionState.UNATTACHED
        for voter_id in (2, 3):
            assert (
                election.vote_responded(VoteResponse(voter_id, 4, True, -1, pre=True), 400, 0.0, TAIL) == []
            )
        assert election.vote_responded(VoteResponse(2, 4, False, 3, pre=True), 400, 0.0, TAIL) == [
            Follow(4, 3)
        ]

    def test_a_vote_is_asked_of_a_voter_with_its_disk(self) -> None:
        voters = VoterSet([Voter(1, OLD_DISK), Voter(2, NEW_DISK), Voter(3)])
        election = voter(Ballot(4), voters, directory=OLD_DISK)
        asks = {effect.voter: effect.request for effect in after_silence(election)}
        assert asks[2].voter_directory == NEW_DISK
        assert asks[3].voter_directory is None
        assert asks[2].candidate_directory == OLD_DISK

    @pytest.mark.parametrize(("tail", "granted"), [(TAIL, False), (EMPTY, True)], ids=["records", "none"])
    def test_an_empty_disk_first_only_helps_to_found_a_cluster(self, tail: Tail, granted: bool) -> None:
        """Whoever has records, but does not know our disk, may have missed that we have acknowledged some."""
        election = voter(directory=NEW_DISK, timing=TIMING._replace(founding_ms=3000))
        answer = election.vote_requested(VoteRequest(5, 2, tail, False), 100, 0.0, EMPTY)[-1]
        assert isinstance(answer, RespondToVote)
        assert answer.response.granted is granted
        late = election.vote_requested(VoteRequest(6, 2, tail, False), 3000, 0.0, EMPTY)[-1]
        assert isinstance(late, RespondToVote)
        assert late.response.granted

    def test_a_new_set_counts_at_once(self) -> None:
        election = candidate()
        election.change_voters(VoterSet.of([1, 2, 3, 4]), 420)
        assert election.vote_responded(VoteResponse(3, 5, True, -1, pre=False), 450, 0.0, TAIL) == []
        assert (
            kinds(election.vote_responded(VoteResponse(4, 5, True, -1, pre=False), 450, 0.0, TAIL))[0] is Lead
        )

    def test_a_leader_that_was_removed_leads_on_until_it_is_told(self) -> None:
        election = leader()
        election.change_voters(VoterSet.of([2, 3]), 500)
        election.voter_heard(2, 1700)
        assert election.tick(1700, 0.0, TAIL) == [TellLeader(3, 5)]
        assert election.resign(1800) == [Follow(5, -1)]
        assert asked(after_silence(election)) == [(2, True), (3, True)]  # As an observer.
        assert election.state is ElectionState.UNATTACHED

    def test_and_does_not_count_itself(self) -> None:
        election = leader()
        election.change_voters(VoterSet.of([2, 3]), 500)
        election.voter_heard(2, 3000)
        election.deadline_ms = 3000
        assert after_silence(election) == [Follow(5, -1)]

    def test_a_candidate_that_was_removed_gives_up(self) -> None:
        election = candidate()
        election.change_voters(VoterSet.of([2, 3]), 420)
        assert election.state is ElectionState.UNATTACHED


class TestLeadersThatNobodyVotedFor:
    """Where epochs jump, the controllers have taken over: who has not heard of it waits for their word."""

    @pytest.fixture
    def election(self) -> Election:
        voters = VoterSet.of([1, 2, 3])
        return Election(1, voters, Ballot(4), Timing(), now_ms=0, chance=0.0, hearsay_max=500)

    def test_hearsay_of_a_far_epoch_is_not_believed(self, election: Election) -> None:
        assert election.leader_hinted(2, 1005, 10) == []
        assert election.epoch == 4

    def test_the_metadata_is(self, election: Election) -> None:
        assert election.leader_hinted(2, 1005, 10, certain=True)
        assert (election.epoch, election.leader) == (1005, 2)

    def test_elections_that_were_missed_are(self, election: Election) -> None:
        election.leader_hinted(2, 9, 10)
        assert (election.epoch, election.leader) == (9, 2)

    def test_to_be_named_oneself_means_nothing(self, election: Election) -> None:
        assert election.leader_hinted(1, 5, 10) == []
        assert election.epoch == 4
