"""How voters elect: each rule of the module's table, one voter at a time."""

from typing import Any

import pytest

from tidelog.replication.election import (
    AnswerVote,
    AskVote,
    Ballot,
    Election,
    Follow,
    Lead,
    SaveBallot,
    State,
    Tail,
    Timing,
    VoteAsk,
    VoteGot,
)
from tidelog.replication.voters import VoterSet

VOTERS = VoterSet.of([1, 2, 3])
TIMING = Timing(silence_ms=1000, trust_ms=600, ask_ms=40, round_ms=300, grace_ms=30)
TAIL = Tail(last_epoch=4, end_offset=10)


def voter(ballot: Ballot = Ballot(), voters: VoterSet = VOTERS) -> Election:  # noqa: B008
    return Election(1, voters, ballot, TIMING, now_ms=0, chance=0.0)


def after_silence(election: Election) -> list[Any]:
    return election.tick(election.deadline_ms, 0.0, TAIL)


def kinds(effects: list[Any]) -> list[type]:
    return [type(effect) for effect in effects]


class TestAsking:
    def test_nothing_happens_before_the_deadline(self) -> None:
        election = voter()
        assert election.tick(election.deadline_ms - 1, 0.0, TAIL) == []

    def test_first_everybody_is_asked_whether_they_would(self) -> None:
        election = voter(Ballot(4))
        ask = VoteAsk(4, 1, TAIL, pre=True)
        assert after_silence(election) == [AskVote(2, ask), AskVote(3, ask)]
        assert election.state is State.PROSPECTIVE
        assert election.ballot == Ballot(4)  # A question commits to nothing.

    def test_a_majority_of_promises_begins_an_election(self) -> None:
        election = voter(Ballot(4))
        after_silence(election)
        effects = election.vote_got(VoteGot(2, 4, True, -1, pre=True), 400, 0.0, TAIL)
        assert kinds(effects) == [AskVote, AskVote, SaveBallot, Follow]
        assert effects[2] == SaveBallot(Ballot(5, 1))
        assert election.state is State.CANDIDATE

    def test_a_majority_of_votes_makes_a_leader(self) -> None:
        election = candidate()
        assert election.vote_got(VoteGot(3, 5, True, -1, pre=False), 450, 0.0, TAIL) == [Lead(5)]
        assert (election.state, election.leader) == (State.LEADER, 1)

    def test_one_voter_elects_itself(self) -> None:
        election = voter(voters=VoterSet.of([1]))
        assert kinds(after_silence(election)) == [SaveBallot, Follow, Lead]

    def test_five_voters_need_three(self) -> None:
        election = voter(Ballot(4), VoterSet.of([1, 2, 3, 4, 5]))
        after_silence(election)
        assert election.vote_got(VoteGot(2, 4, True, -1, pre=True), 400, 0.0, TAIL) == []
        assert election.vote_got(VoteGot(2, 4, True, -1, pre=True), 400, 0.0, TAIL) == []  # Not twice.
        assert election.vote_got(VoteGot(3, 4, True, -1, pre=True), 400, 0.0, TAIL)

    @pytest.mark.parametrize(
        "late",
        [
            VoteGot(2, 4, True, -1, pre=False),
            VoteGot(2, 5, True, -1, pre=True),
            VoteGot(9, 5, True, -1, pre=False),
        ],
        ids=["an older epoch", "a promise", "a stranger"],
    )
    def test_what_does_not_count(self, late: VoteGot) -> None:
        election = candidate()
        assert election.vote_got(late, 450, 0.0, TAIL) == []
        assert election.state is State.CANDIDATE

    def test_a_higher_epoch_ends_every_hope(self) -> None:
        election = candidate()
        effects = election.vote_got(VoteGot(2, 9, False, -1, pre=False), 450, 0.0, TAIL)
        assert effects == [SaveBallot(Ballot(9)), Follow(9, -1)]
        assert election.state is State.UNATTACHED


def candidate() -> Election:
    election = voter(Ballot(4))
    after_silence(election)
    election.vote_got(VoteGot(2, 4, True, -1, pre=True), 400, 0.0, TAIL)
    return election


def leader() -> Election:
    election = candidate()
    election.vote_got(VoteGot(3, 5, True, -1, pre=False), 450, 0.0, TAIL)
    return election


class TestBeingAsked:
    def ask(self, election: Election, ask: VoteAsk, now_ms: int = 100) -> VoteGot:
        answer = election.vote_asked(ask, now_ms, 0.0, TAIL)[-1]
        assert isinstance(answer, AnswerVote)
        return answer.got

    def test_the_vote_leaves_behind_its_ballot(self) -> None:
        effects = voter(Ballot(4)).vote_asked(VoteAsk(5, 2, TAIL, False), 100, 0.0, TAIL)
        assert kinds(effects) == [SaveBallot, Follow, SaveBallot, AnswerVote]
        assert effects[2] == SaveBallot(Ballot(5, 2))

    def test_one_vote_per_epoch(self) -> None:
        election = voter(Ballot(5, 2))
        assert not self.ask(election, VoteAsk(5, 3, TAIL, False)).granted
        assert self.ask(election, VoteAsk(5, 2, TAIL, False)).granted  # The answer was lost: the same again.

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
        assert self.ask(voter(Ballot(4)), VoteAsk(4 if pre else 5, 2, tail, pre)).granted is granted

    def test_an_older_epoch_is_told_the_present_one(self) -> None:
        assert self.ask(voter(Ballot(7)), VoteAsk(6, 2, TAIL, False)) == VoteGot(1, 7, False, -1, False)

    def test_who_hears_the_leader_does_not_help_to_replace_it(self) -> None:
        election = voter(Ballot(4))
        election.leader_heard(3, 4, 100)
        assert self.ask(election, VoteAsk(4, 2, TAIL, True), 200) == VoteGot(1, 4, False, 3, True)
        assert self.ask(election, VoteAsk(4, 2, TAIL, True), 1200).granted  # Silent for too long by then.

    def test_hearsay_is_no_reason_to_refuse(self) -> None:
        """Or two followers could assure each other of a dead leader for ever."""
        election = voter(Ballot(4))
        election.leader_named(3, 4, 100)
        assert (election.state, election.leader) == (State.FOLLOWER, 3)
        assert self.ask(election, VoteAsk(4, 2, TAIL, True), 110) == VoteGot(1, 4, True, -1, True)

    def test_a_promise_changes_nothing(self) -> None:
        election = voter(Ballot(4, 3))
        self.ask(election, VoteAsk(4, 2, TAIL, True))
        assert election.ballot == Ballot(4, 3)


class TestLeading:
    def test_a_leader_that_hears_no_majority_steps_down(self) -> None:
        election = leader()
        now_ms = 450
        while election.state is State.LEADER and now_ms < 5000:
            now_ms = election.deadline_ms
            effects = election.tick(now_ms, 0.0, TAIL)
        assert effects == [Follow(5, -1)]
        assert 1450 < now_ms <= 1450 + TIMING.silence_ms // 4 + 1

    def test_one_follower_of_two_is_enough(self) -> None:
        election = leader()
        for now_ms in range(500, 6000, 100):
            election.voter_heard(2, now_ms)
            assert election.tick(now_ms, 0.0, TAIL) == []
        assert election.state is State.LEADER

    def test_a_closed_connection_is_noticed_before_the_silence(self) -> None:
        election = voter(Ballot(4))
        election.leader_heard(3, 4, 1000)
        election.leader_lost(2, 1100, 0.0)
        assert election.deadline_ms == 2000
        election.leader_lost(3, 1100, 0.0)
        assert election.deadline_ms == 1130
        assert kinds(after_silence(election)) == [Follow, AskVote, AskVote]

    def test_a_new_leader_is_followed(self) -> None:
        assert leader().leader_heard(2, 6, 900) == [SaveBallot(Ballot(6)), Follow(6, 2)]
        assert leader().leader_heard(2, 4, 900) == []
