"""A replica that leads and one that follows: every rule of design that the state machine owns."""

import pytest

from tidelog.errors import ErrorCode, InvariantViolation
from tidelog.replication.effects import BeginEpoch, Commit, ProposeInSync, Truncate
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import NOTHING_SAFE, Replica, Role
from unit.replication.driven import ALL, LAG_MS, LEADER_ONLY, Driven, FakeLog


class TestCommitting:
    def test_committed_when_the_whole_set_has_it(self) -> None:
        driven = Driven().lead()
        driven.produce()
        driven.fetched(2, 1)
        assert driven.replica.high_watermark == 0
        driven.fetched(3, 1)
        assert driven.replica.high_watermark == 1
        assert driven.answers == [ErrorCode.NONE]

    def test_acks_1_waits_for_nobody(self) -> None:
        driven = Driven().lead()
        driven.produce(LEADER_ONLY)
        assert driven.answers == [ErrorCode.NONE]
        assert driven.replica.high_watermark == 0

    def test_nothing_is_committed_below_the_minimum(self) -> None:
        driven = Driven().lead(in_sync=(1,))
        assert driven.replica.before_append(ALL) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert driven.replica.before_append(LEADER_ONLY) is ErrorCode.NONE
        driven.produce(LEADER_ONLY)
        assert driven.replica.high_watermark == 0

    def test_a_set_that_shrinks_below_the_minimum_refuses_what_waits(self) -> None:
        driven = Driven().lead(in_sync=(1, 2))
        driven.produce()
        driven.lead(in_sync=(1,), partition_epoch=1)
        assert driven.answers == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]

    def test_a_durable_topic_counts_what_is_synced(self) -> None:
        driven = Driven(durable=True).lead(in_sync=(1, 2))
        driven.produce()
        driven.fetched(2, 1)
        assert driven.replica.high_watermark == 0
        driven.log.synced_end_offset = 1
        driven.run(driven.replica.synced())
        assert driven.answers == [ErrorCode.NONE]

    def test_modest_wishes_do_not_wait_behind_great_ones(self) -> None:
        driven = Driven(durable=True).lead()
        driven.produce(ALL)
        driven.produce(LEADER_ONLY)
        driven.log.synced_end_offset = 2
        driven.run(driven.replica.synced())
        assert driven.answers == [ErrorCode.NONE]

    def test_what_waits_is_refused_when_another_may_lead(self) -> None:
        """The client then looks for the successor, and does not wait for its timeout."""
        driven = Driven().lead()
        safe = [0]
        driven.replica.ask_before_commit(lambda: safe[0])
        driven.produce()
        driven.run(driven.replica.tick(1))
        assert driven.answers == []  # Followers may still hold it and follow.
        safe[0] = NOTHING_SAFE
        driven.run(driven.replica.tick(2))
        assert driven.answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert driven.replica.high_watermark == 0

    def test_time_runs_out(self) -> None:
        driven = Driven().lead()
        driven.produce(deadline_ms=500)
        driven.run(driven.replica.tick(499))
        assert driven.answers == []
        driven.run(driven.replica.tick(500))
        assert driven.answers == [ErrorCode.REQUEST_TIMED_OUT]

    def test_a_leader_that_is_replaced_says_ok_to_nothing(self) -> None:
        driven = Driven().lead()
        driven.produce()
        driven.run(driven.replica.follow(2, 3, (1, 2, 3), 1))
        assert driven.answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def test_a_new_leader_commits_nothing_before_it_has_heard_of_everybody(self) -> None:
        driven = Driven()
        driven.log.write(1, 5)
        driven.lead(epoch=2)
        assert driven.replica.high_watermark == 0
        assert BeginEpoch(2, 5) in driven.seen

    def test_a_quorum_needs_a_record_of_its_own_epoch(self) -> None:
        driven = Driven("quorum")
        driven.log.write(1, 5)
        driven.lead(epoch=2)
        driven.fetched(2, 5, epoch=2)
        driven.fetched(3, 5, epoch=2)
        assert driven.replica.high_watermark == 0
        driven.produce()
        driven.fetched(2, 6, last_epoch=2, epoch=2)
        assert driven.replica.high_watermark == 6


class TestMembers:
    def test_a_lagging_member_leaves_when_the_controller_says_so(self) -> None:
        driven = Driven().lead()
        driven.fetched(2, 0, last_epoch=-1, now_ms=900)
        driven.produce()
        driven.fetched(2, 1, now_ms=1000)
        effects = driven.run(driven.replica.tick(LAG_MS + 1))
        assert effects == [ProposeInSync((1, 2), 1, 0)]
        assert driven.replica.high_watermark == 0  # Still the old set.
        driven.lead(in_sync=(1, 2), partition_epoch=1)
        assert driven.replica.high_watermark == 1

    def test_one_proposal_at_a_time(self) -> None:
        driven = Driven().lead()
        driven.produce()
        assert driven.run(driven.replica.tick(LAG_MS + 1))
        assert driven.run(driven.replica.tick(LAG_MS + 2)) == []
        assert driven.replica.proposals.pending == (1,)

    def test_steady_small_writes_throw_nobody_out(self) -> None:
        driven = Driven().lead(in_sync=(1, 2))
        for number in range(50):
            now_ms = number * 100
            driven.fetched(2, number, last_epoch=1 if number else -1, now_ms=now_ms)
            driven.produce()  # The follower is never quite at the end.
            assert driven.run(driven.replica.tick(now_ms + 1)) == []

    def test_a_follower_that_has_caught_up_is_proposed_and_waited_for(self) -> None:
        driven = Driven().lead(in_sync=(1, 2))
        driven.produce()
        driven.fetched(2, 1)
        driven.fetched(3, 1)
        assert driven.seen[-1] == ProposeInSync((1, 2, 3), 1, 0)
        driven.produce()
        driven.fetched(2, 2)
        assert driven.replica.high_watermark == 1  # If the controller confirms, 3 was a member all along.
        driven.fetched(3, 2)
        assert driven.replica.high_watermark == 2

    def test_a_follower_behind_the_watermark_or_the_epoch_does_not_join(self) -> None:
        driven = Driven()
        driven.log.write(1, 5)
        driven.lead(epoch=2, in_sync=(1, 2))
        driven.fetched(3, 4, epoch=2)
        assert not [effect for effect in driven.seen if isinstance(effect, ProposeInSync)]
        driven.fetched(3, 5, epoch=2)
        assert [effect for effect in driven.seen if isinstance(effect, ProposeInSync)]

    def test_a_follower_that_has_not_deleted_what_its_leader_has_does_not_join(self) -> None:
        driven = Driven().lead(in_sync=(1, 2))
        driven.produce()
        driven.produce()
        driven.fetched(2, 2)
        driven.log.start_offset = 1
        driven.fetched(3, 2)
        assert driven.replica.proposals.pending is None
        assert driven.run(driven.replica.invite()) == []
        driven.fetched(3, 2, start=1)
        assert driven.replica.proposals.pending == (1, 2, 3)

    def test_one_that_is_refused_does_not_keep_out_the_others(self) -> None:
        """A fenced follower that once had everything is proposed and refused; one that is caught up, and has
        nothing to fetch, is not heard of again.
        """
        leader = Driven().lead(in_sync=(1,))
        leader.fetched(2, 0)
        leader.fetched(3, 0)
        assert leader.replica.proposals.pending == (1, 2)
        refused = leader.run(leader.replica.proposal_refused())
        assert [effect.members for effect in refused if isinstance(effect, ProposeInSync)] == [(1, 3)]
        assert leader.run(leader.replica.proposal_refused()) == []  # Not in turns for ever.
        invited = leader.run(leader.replica.invite())
        assert [effect.members for effect in invited if isinstance(effect, ProposeInSync)] == [(1, 2)]

    def test_one_that_is_refused_is_not_proposed_again_before_it_is_invited(self) -> None:
        """Each refusal is a record of the metadata log: a follower that goes on fetching must not make one
        with every fetch, whether the answer or the record comes first.
        """
        answered, recorded = Driven().lead(in_sync=(1, 2)), Driven().lead(in_sync=(1, 2))
        for leader in (answered, recorded):
            leader.fetched(3, 0)
            leader.seen.clear()
        answered.run(answered.replica.proposal_refused(recorded=True))
        for leader in (answered, recorded):
            leader.lead(in_sync=(1, 2), partition_epoch=1)
            assert leader.replica.maximal_in_sync == {1, 2}
            leader.fetched(3, 0, now_ms=20)
            assert leader.seen == []
            assert leader.run(leader.replica.invite()) == [ProposeInSync((1, 2, 3), 1, 1)]

    def test_one_that_was_given_up_for_old_metadata_is_proposed_with_the_news(self) -> None:
        """Its log had failed, as far as was known here. That it has not any more changes no member."""
        leader = Driven().lead(in_sync=(1, 2))
        leader.fetched(3, 0)
        leader.run(leader.replica.proposal_refused())
        leader.seen.clear()
        leader.lead(in_sync=(1, 2), partition_epoch=1)
        assert leader.seen == [ProposeInSync((1, 2, 3), 1, 1)]

    def test_the_same_state_again_does_not_end_a_proposal(self) -> None:
        """A snapshot of the metadata tells it once more, while the proposal is under way."""
        driven = Driven().lead(in_sync=(1, 2), partition_epoch=3)
        driven.fetched(3, 0)
        driven.lead(in_sync=(1, 2), partition_epoch=3)
        assert driven.replica.proposals.pending == (1, 2, 3)
        driven.produce()
        driven.fetched(2, 1)
        assert driven.replica.high_watermark == 0

    @pytest.mark.parametrize("accepted", [True, False])
    def test_a_disk_that_fails_does_not_end_a_proposal(self, accepted: bool) -> None:
        """It may be accepted already. The leader still serves reads, up to what the new member holds."""
        driven = Driven().lead(in_sync=(1, 2))
        driven.fetched(3, 0)
        driven.produce()
        driven.run(driven.replica.cannot_write(ErrorCode.KAFKA_STORAGE_ERROR))
        driven.fetched(2, 1)
        assert (driven.replica.proposals.pending, driven.replica.high_watermark) == ((1, 2, 3), 0)
        if accepted:
            driven.lead(in_sync=(1, 2, 3), partition_epoch=1)
            assert driven.replica.high_watermark == 0
            driven.fetched(3, 1)
        else:
            driven.run(driven.replica.proposal_refused())
        assert driven.replica.high_watermark == 1

    def test_the_end_of_a_role_ends_a_proposal(self) -> None:
        driven = Driven().lead(in_sync=(1,))
        driven.fetched(3, 0)
        driven.run(driven.replica.follow(2, 3, (1, 2, 3), 1))
        assert driven.replica.proposals.pending is None

    def test_a_late_message_about_older_members_is_ignored(self) -> None:
        driven = Driven().lead(in_sync=(1, 2), partition_epoch=3)
        driven.lead(in_sync=(1, 2, 3), partition_epoch=2)
        assert driven.replica.in_sync == (1, 2)


class TestEpochs:
    @pytest.mark.parametrize(
        ("epoch", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    def test_a_follower_of_another_epoch_is_refused(self, epoch: int, error: ErrorCode) -> None:
        assert Driven().lead().fetched(2, 0, epoch=epoch).error is error

    def test_an_epoch_is_led_once(self) -> None:
        driven = Driven().lead(epoch=3)
        driven.run(driven.replica.follow(3, -1, (1, 2, 3), 0))  # It resigned.
        with pytest.raises(InvariantViolation, match="led once"):
            driven.lead(epoch=3)

    def test_two_leaders_of_one_epoch_are_noticed(self) -> None:
        driven = Driven().lead(epoch=3)
        with pytest.raises(InvariantViolation, match="two leaders"):
            driven.replica.follow(3, 2, (1, 2, 3), 0)


class TestBeginning:
    @pytest.mark.parametrize(("checkpointed", "watermark"), [(2, 6), (7, 7), (9, 8)])
    def test_a_checkpointed_watermark_lies_within_the_log(self, checkpointed: int, watermark: int) -> None:
        log = FakeLog()
        log.write(1, 8)
        log.start_offset = 6
        assert Replica(1, log, MODES["isr"].policy, Limits(), checkpointed).high_watermark == watermark


class TestDivergence:
    def test_records_of_an_epoch_that_ended_earlier_are_sent_back(self) -> None:
        driven = Driven()
        driven.log.write(1, 5)
        driven.lead(epoch=3)
        driven.produce()
        answer = driven.fetched(2, 8, last_epoch=1, epoch=3)
        assert answer.diverging == (1, 5)
        assert not driven.replica.progress[2].seen  # It acknowledges nothing.

    def test_the_follower_truncates_where_they_part_and_never_below_the_watermark(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 8)
        follower.run(follower.replica.follow(3, 1, (1, 2, 3), 0))
        follower.run(follower.replica.received(3, 5))
        follower.run(follower.replica.diverged(3, (1, 5)))
        assert follower.log.end_offset == 5
        with pytest.raises(InvariantViolation, match="below the high watermark"):
            follower.replica.diverged(3, (1, 4))

    def test_who_was_sure_before_it_was_killed_is_sure(self) -> None:
        log = Driven(me=2).log
        log.write(1, 8)
        for log_confirmed in (False, True):
            replica = Replica(2, log, MODES["isr"].policy, Limits(), 5, log_confirmed=log_confirmed)
            replica.follow(3, 1, (1, 2, 3), 0)
            if log_confirmed:
                with pytest.raises(InvariantViolation, match="below the high watermark"):
                    replica.diverged(3, (1, 4))
            else:
                assert replica.diverged(3, (1, 4))  # A power failure may have exchanged the records.

    @pytest.mark.parametrize(("synced", "start", "readable"), [(3, 0, 3), (8, 0, 5), (0, 4, 4)])
    def test_after_a_power_failure_readers_get_what_was_synced(
        self, synced: int, start: int, readable: int
    ) -> None:
        log = Driven(me=2).log
        log.write(1, 8)
        log.synced_end_offset, log.start_offset = synced, start
        replica = Replica(2, log, MODES["isr"].policy, Limits(), 5)
        replica.follow(3, 1, (1, 2, 3), 0)
        log.synced_end_offset = 8  # What is synced later may be a tail that has come back.
        assert (replica.high_watermark, replica.readable_end_offset) == (5, readable)
        told = replica.received(3, 4)
        assert replica.readable_end_offset == 5
        assert told == ([Commit(5)] if readable < 5 else [])

    def test_they_hear_of_no_watermark_before_the_start_of_a_log_that_begins_anew(self) -> None:
        log = Driven(me=2).log
        replica = Replica(2, log, MODES["isr"].policy, Limits())
        replica.follow(3, 1, (1, 2, 3), 0)
        log.start_offset = log.end_offset = 7
        replica.watermark.log_restarted(7)
        assert not replica.watermark.log_confirmed
        assert (replica.high_watermark, replica.readable_end_offset) == (7, 7)

    def test_they_get_all_when_the_leader_has_taken_the_ask(self) -> None:
        log = Driven(me=2).log
        log.write(1, 8)
        replica = Replica(2, log, MODES["isr"].policy, Limits(), 5)
        replica.follow(3, 1, (1, 2, 3), 0)
        assert replica.readable_end_offset == 0
        assert replica.watermark.accepted(log.start_offset) == [Commit(5)]
        assert (replica.readable_end_offset, replica.watermark.accepted(log.start_offset)) == (5, [])

    def test_who_was_sure_serves_everything_at_once(self) -> None:
        log = Driven(me=2).log
        log.write(1, 8)
        assert Replica(2, log, MODES["isr"].policy, Limits(), 5, log_confirmed=True).readable_end_offset == 5

    def test_a_follower_knows_what_it_lacks(self) -> None:
        driven = Driven(me=2)
        watermark = driven.replica.watermark
        driven.run(driven.replica.follow(1, 1, (1, 2), 0))
        driven.log.write(1, 3)
        driven.run(driven.replica.received(1, 10))
        assert (watermark.offset, watermark.lacks(driven.log.end_offset)) == (3, 7)
        driven.log.write(1, 7)
        driven.run(driven.replica.received(1, 10))
        assert (watermark.offset, watermark.lacks(driven.log.end_offset)) == (10, 0)

    def test_after_an_unclean_election_it_may(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 8)
        follower.run(follower.replica.follow(3, 1, (1, 2, 3), 0))
        follower.run(follower.replica.received(3, 8))
        follower.run(follower.replica.diverged(3, (1, 4), unclean=True))
        assert (follower.log.end_offset, follower.replica.high_watermark) == (4, 4)

    def test_what_is_dropped_to_be_fetched_again_stays_committed(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 8)
        follower.run(follower.replica.follow(3, 1, (1, 2, 3), 0))
        follower.run(follower.replica.received(3, 8))
        follower.run(follower.replica.diverged(3, (1, 4), unclean=True, from_start=True))
        watermark = follower.replica.watermark
        assert (follower.log.end_offset, watermark.offset, watermark.lacks(0)) == (0, 0, 4)

    def test_an_unclean_leader_that_ends_before_our_log_begins_is_followed_from_there(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 8)
        follower.log.start_offset = 6
        follower.log.epochs.truncate_before(6)
        follower.run(follower.replica.follow(3, 1, (1, 2, 3), 0))
        follower.run(follower.replica.received(3, 8))
        assert follower.run(follower.replica.diverged(3, (1, 2), unclean=True)) == [Truncate(2)]
        assert follower.replica.high_watermark == 2

    def test_divergence_over_two_epochs(self) -> None:
        """Leader: epoch 1 to 10, then 4. Follower: epoch 1 to 4, epoch 2 to 6, epoch 3 to 8."""
        leader = Driven()
        leader.log.write(1, 10)
        leader.lead(epoch=4)
        follower = Driven(me=2)
        for epoch, count in ((1, 4), (2, 2), (3, 2)):
            follower.log.write(epoch, count)
        follower.run(follower.replica.follow(4, 1, (1, 2, 3), 0))
        rounds = 0
        while True:
            answer = leader.fetched(2, follower.log.end_offset, follower.replica.last_epoch, epoch=4)
            if answer.diverging is None:
                break
            follower.run(follower.replica.diverged(4, answer.diverging))
            rounds += 1
        assert (follower.log.end_offset, rounds) == (4, 1)

    def test_old_answers_change_nothing(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 8)
        follower.run(follower.replica.follow(3, 1, (1, 2, 3), 0))
        assert follower.replica.diverged(2, (1, 0)) == []
        assert follower.replica.received(2, 8) == []

    def test_the_watermark_is_taken_only_as_far_as_the_log_reaches(self) -> None:
        follower = Driven(me=2)
        follower.log.write(1, 3)
        follower.run(follower.replica.follow(1, 1, (1, 2, 3), 0))
        assert follower.run(follower.replica.received(1, 9)) == [Commit(3)]
        assert follower.replica.role is Role.FOLLOWER
