"""Who votes: learnt, added, removed, taken in anew; one at a time, whatever crashes meanwhile."""

from collections.abc import Callable
from uuid import UUID

import pytest

from tidelog.errors import ErrorCode, TidelogError
from tidelog.replication.voters import (
    Voter,
    VoterHistory,
    VoterSet,
    decode_set,
    encode_batch_of,
    encode_set,
    sets_in,
)
from unit.broker.controllers import Controllers, quiet

__all__ = ["quiet"]

DISK, OTHER_DISK = UUID(int=1), UUID(int=2)


class Outcome:
    """What an operator was told."""

    def __init__(self) -> None:
        self.told: list[ErrorCode] = []

    def __call__(self, error: TidelogError | None) -> None:
        self.told.append(error.code if error is not None else ErrorCode.NONE)


def change(
    cluster: Controllers, kind: str, voter: Voter, timeout_ms: int = 3000, *, wait: bool = True
) -> Outcome:
    outcome = Outcome()
    leader = cluster.active()
    assert leader is not None
    action: Callable[..., None] = getattr(leader.voters, kind)
    action(voter, timeout_ms, outcome)
    if wait:
        cluster.until(lambda: outcome.told)
    return outcome


def observer(cluster: Controllers, node_id: int) -> Voter:
    return Voter(node_id, cluster.quorum(node_id).election.directory, f"host{node_id}", 9093)


def ids(cluster: Controllers) -> list[int]:
    return [voter.voter_id for voter in cluster.voters()]


class TestSets:
    def test_a_voter_counts_with_its_disk_only(self) -> None:
        voters = VoterSet([Voter(1, DISK), Voter(2)])
        assert voters.counts(1, DISK)
        assert not voters.counts(1, OTHER_DISK)
        assert not voters.counts(1, None)
        assert voters.counts(2, DISK)  # Not learnt yet: any will do.
        assert voters.counts(2, None)
        assert not voters.counts(3, None)

    @pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
    def test_majorities(self, size: int, majority: int) -> None:
        assert VoterSet.of(range(size)).majority == majority

    def test_one_more_or_less_is_safe(self) -> None:
        three = VoterSet.of([1, 2, 3])
        assert three.including(Voter(4)).is_safe_after(three)
        assert three.without(1).is_safe_after(three)
        assert three.including(Voter(1, DISK)).is_safe_after(three)
        assert not three.without(1).without(2).is_safe_after(three)
        assert not three.without(1).including(Voter(4)).is_safe_after(three)
        assert not VoterSet([]).is_safe_after(VoterSet.of([1]))

    def test_what_is_written_is_what_is_read(self) -> None:
        voters = VoterSet([Voter(1, DISK, "h", 9093), Voter(2)], [Voter(3, OTHER_DISK)])
        assert decode_set(encode_set(voters)) == voters
        batch = encode_batch_of(voters, offset=7, leader_epoch=3, now_ms=1000)
        assert list(sets_in(memoryview(batch))) == [(7, voters)]

    def test_history_goes_back_where_the_log_is_cut(self) -> None:
        history = VoterHistory(VoterSet.of([1]))
        history.appended(5, VoterSet.of([1, 2]))
        history.appended(9, VoterSet.of([1, 2, 3]))
        assert history.before(5) == VoterSet.of([1])
        assert history.before(6) == history.before(9) == VoterSet.of([1, 2])
        assert history.before(10) == history.latest
        assert not history.cut(10)
        assert history.cut(9)
        assert history.latest == VoterSet.of([1, 2])
        assert history.latest_offset == 5

    def test_history_keeps_what_holds_when_the_log_begins_later(self) -> None:
        history = VoterHistory(VoterSet.of([1]))
        history.appended(5, VoterSet.of([1, 2]))
        history.appended(9, VoterSet.of([1, 2, 3]))
        history.forget_before(7)
        assert history.before(8) == VoterSet.of([1, 2])
        assert history.latest == VoterSet.of([1, 2, 3])
        assert not history.cut(10)


class TestLearning:
    def test_disks_of_all_voters_are_in_the_log_soon(self) -> None:
        cluster = Controllers(3).begin()
        for voter in cluster.voters():
            assert voter.directory == cluster.quorum(voter.voter_id).election.directory

    def test_and_stay_there(self) -> None:
        cluster = Controllers(3).begin()
        before = cluster.voters()
        for machine in cluster.machines.values():
            machine.kill()
        cluster.start()
        cluster.until(cluster.is_whole)
        assert cluster.voters() == before
        assert cluster.leader().driver.log.end_offset <= 6  # type: ignore[union-attr] # No record says it again.


class TestAdding:
    def test_an_observer_becomes_a_voter(self) -> None:
        cluster = Controllers(3, 1).begin()
        assert change(cluster, "add", observer(cluster, 4)).told == [ErrorCode.NONE]
        cluster.until(cluster.is_whole)
        assert ids(cluster) == [1, 2, 3, 4]
        assert cluster.quorum(4).election.is_voter

    def test_and_counts(self) -> None:
        """Of five, three live, two of them new."""
        cluster = Controllers(3, 2).begin()
        change(cluster, "add", observer(cluster, 4))
        change(cluster, "add", observer(cluster, 5))
        cluster.until(cluster.is_whole)
        for node_id in (1, 2):
            cluster.machines[node_id].kill()
        cluster.until(cluster.active)
        cluster.write_some(3)
        assert ids(cluster) == [1, 2, 3, 4, 5]

    def test_it_first_has_to_catch_up(self) -> None:
        cluster = Controllers(3, 1).begin()
        cluster.network.part([4], [1, 2, 3])
        cluster.write_some(3)
        voter = observer(cluster, 4)
        outcome = change(cluster, "add", voter, 2000)
        assert outcome.told == [ErrorCode.REQUEST_TIMED_OUT]
        assert ids(cluster) == [1, 2, 3]
        late = change(cluster, "add", voter, 10_000, wait=False)
        cluster.run(500)
        cluster.network.heal()
        cluster.until(lambda: late.told)
        assert late.told == [ErrorCode.NONE]

    def test_only_with_the_disk_that_was_named(self) -> None:
        cluster = Controllers(3, 1).begin()
        assert change(cluster, "add", Voter(4, OTHER_DISK), 1000).told == [ErrorCode.REQUEST_TIMED_OUT]

    def test_a_request_may_leave_out_the_disk(self) -> None:
        """It is written with the disk on which it has caught up."""
        cluster = Controllers(3, 1).begin()
        change(cluster, "add", Voter(4, None, "host4", 9093), wait=False)
        leader = cluster.active()
        assert leader is not None
        assert leader.voters.latest.get(4) == observer(cluster, 4)

    def test_a_lone_controller_is_elected_by_the_one_that_it_adds(self) -> None:
        """The set of two is in the log of the lone one only, which then restarts: it needs the vote of a node
        that does not know that it votes.
        """
        cluster = Controllers(1, 1).begin()
        cluster.network.part([1], [2])
        change(cluster, "add", Voter(2), wait=False)
        assert cluster.quorum(1).voters.latest.ids == {1, 2}
        cluster.machines[1].kill()
        cluster.machines[1].start()
        assert cluster.quorum(2).voters.latest.ids == {1}
        cluster.network.heal()
        cluster.until(cluster.is_whole)
        assert ids(cluster) == [1, 2]

    def test_a_voter_is_not_added_twice(self) -> None:
        cluster = Controllers(3).begin()
        assert change(cluster, "add", observer(cluster, 2)).told == [ErrorCode.DUPLICATE_VOTER]

    def test_two_wishes_are_granted_one_after_the_other(self) -> None:
        cluster = Controllers(3, 2).begin()
        first = change(cluster, "add", observer(cluster, 4), wait=False)
        second = change(cluster, "add", observer(cluster, 5), wait=False)
        leader = cluster.active()
        assert leader is not None
        assert leader.voters.latest.ids == {1, 2, 3, 4}  # It counts when it is written,
        cluster.until(lambda: first.told)
        cluster.until(lambda: second.told)  # and the next one when that is committed.
        assert [first.told, second.told] == [[ErrorCode.NONE], [ErrorCode.NONE]]
        assert ids(cluster) == [1, 2, 3, 4, 5]

    def test_only_the_active_controller_does_it(self) -> None:
        cluster = Controllers(3, 1).begin()
        outcome = Outcome()
        follower = cluster.followers()[0].quorum
        assert follower is not None
        follower.voters.add(observer(cluster, 4), 1000, outcome)
        assert outcome.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


class TestRemoving:
    def test_a_voter_becomes_an_observer(self) -> None:
        cluster = Controllers(3).begin()
        gone = cluster.followers()[0].node_id
        assert change(cluster, "remove", Voter(gone)).told == [ErrorCode.NONE]
        cluster.write_some(3)
        cluster.until(cluster.is_whole)
        assert gone not in ids(cluster)
        assert not cluster.quorum(gone).election.is_voter
        assert cluster.quorum(gone).image == cluster.active().image  # type: ignore[union-attr]

    def test_the_leader_steps_down_when_its_removal_is_committed(self) -> None:
        cluster = Controllers(3).begin()
        old = cluster.active_machine()
        outcome = change(cluster, "remove", Voter(old.node_id))
        assert outcome.told == [ErrorCode.NONE]
        took_ms = cluster.until(lambda: cluster.active() and not old.leads)
        assert took_ms <= 150
        assert old.node_id not in ids(cluster)
        cluster.until(cluster.is_whole)

    def test_a_removed_leader_does_not_count_itself(self) -> None:
        """Of the two that are left one is away: nothing is committed by the leader and the other one."""
        cluster = Controllers(3).begin()
        leader, other = cluster.active_machine(), cluster.followers()[0]
        other.lose_power()
        outcome = change(cluster, "remove", Voter(leader.node_id), wait=False)
        cluster.run(1000)
        assert outcome.told == []

    def test_an_unknown_voter_and_the_last_one_stay(self) -> None:
        cluster = Controllers(2).begin()
        assert change(cluster, "remove", Voter(7)).told == [ErrorCode.VOTER_NOT_FOUND]
        gone = cluster.followers()[0].node_id
        assert change(cluster, "remove", Voter(gone, OTHER_DISK)).told == [ErrorCode.VOTER_NOT_FOUND]
        assert change(cluster, "remove", Voter(gone)).told == [ErrorCode.NONE]
        assert change(cluster, "remove", Voter(cluster.active_machine().node_id)).told == [
            ErrorCode.INVALID_REQUEST
        ]

    def test_who_would_leave_no_majority_alive_stays(self) -> None:
        cluster = Controllers(3).begin()
        dead, alive = cluster.followers()
        dead.lose_power()
        cluster.run(1200)
        outcome = change(cluster, "remove", Voter(alive.node_id), 1000)
        assert outcome.told == [ErrorCode.REQUEST_TIMED_OUT]
        assert change(cluster, "remove", Voter(dead.node_id)).told == [ErrorCode.NONE]


class TestNewLeader:
    def test_it_changes_nothing_before_a_record_of_its_own_is_committed(self) -> None:
        """Its predecessor may have changed something that it has not heard of."""
        cluster = Controllers(3, 1).begin()
        old = cluster.active_machine()
        heir, other = cluster.followers()[:2]
        old.lose_power()
        cluster.until(lambda: cluster.leaders())
        if not heir.leads:
            heir, other = other, heir
        cluster.network.part([heir.node_id], [other.node_id, 4])  # Elected, but not heard of any more.
        assert heir.quorum is not None
        assert not heir.quorum.active
        outcome = Outcome()
        heir.quorum.voters.remove(Voter(old.node_id), 10_000, outcome)
        cluster.run(800)
        assert heir.leads
        assert heir.quorum.voters.latest.ids == {1, 2, 3}
        cluster.network.heal()
        cluster.until(lambda: outcome.told)
        assert outcome.told == [ErrorCode.NONE]


class TestCrashes:
    """A change that is under way when its leader dies is either made or not made."""

    @pytest.mark.parametrize("kind", ["add", "remove"])
    @pytest.mark.slow
    def test_the_leader_dies_at_any_moment_of_a_change(self, kind: str) -> None:
        made = set()
        for moment in range(30):
            cluster = Controllers(3, 1, seed=moment).begin()
            leader = cluster.active_machine()
            voter = observer(cluster, 4) if kind == "add" else Voter(cluster.followers()[0].node_id)
            outcome = change(cluster, kind, voter, wait=False)
            if moment:
                cluster.run(moment / 4)
            leader.lose_power()
            cluster.run(2000)
            leader.start()  # Where the change counts already, the others may need its vote.
            cluster.until(cluster.active)
            cluster.write_some(2)
            cluster.until(cluster.is_whole)
            now_voting = voter.voter_id in ids(cluster)
            made.add(now_voting)
            if outcome.told == [ErrorCode.NONE]:
                assert now_voting is (kind == "add")
            cluster.check_acknowledged()
        assert made == {True, False}

    def test_a_change_that_was_cut_off_is_forgotten(self) -> None:
        """The leader writes it, nobody hears of it, another one leads: the old set is in force again."""
        cluster = Controllers(3, 1).begin()
        old = cluster.active_machine()
        cluster.network.part([old.node_id], [node for node in cluster.machines if node != old.node_id])
        change(cluster, "add", observer(cluster, 4), wait=False)
        assert cluster.quorum(old.node_id).voters.latest.ids == {1, 2, 3, 4}
        cluster.until(lambda: cluster.active() and not old.leads)
        cluster.write_some()
        cluster.network.heal()
        cluster.until(cluster.is_whole)
        assert cluster.quorum(old.node_id).voters.latest.ids == {1, 2, 3}
        assert cluster.quorum(old.node_id).election.voters.ids == {1, 2, 3}


class TestAnotherDisk:
    def test_a_voter_that_forgot_is_taken_in_anew(self) -> None:
        cluster = Controllers(3).begin()
        cluster.write_some(5)
        wiped = cluster.followers()[0]
        before = {voter.voter_id: voter.directory for voter in cluster.voters()}
        wiped.lose_disk()
        wiped.start()
        cluster.until(cluster.is_whole)
        after = {voter.voter_id: voter.directory for voter in cluster.voters()}
        assert after.keys() == before.keys()
        assert after[wiped.node_id] == cluster.quorum(wiped.node_id).election.directory
        assert after[wiped.node_id] != before[wiped.node_id]
        assert cluster.quorum(wiped.node_id).election.is_voter

    def test_before_that_it_helps_nobody_to_lead(self) -> None:
        """What it acknowledged together with the one that is dead now must not be lost."""
        cluster = Controllers(3).begin()
        leader, wiped, behind = cluster.active_machine(), *cluster.followers()
        cluster.network.part([behind.node_id], [leader.node_id, wiped.node_id])
        cluster.run(2500)
        if not leader.leads:
            cluster.until(cluster.active)
        cluster.write_some(5)  # Only two of three have it.
        assert cluster.quorum(behind.node_id).driver.log.end_offset < leader.quorum.driver.log.end_offset  # type: ignore[union-attr]
        leader.lose_power()
        wiped.lose_disk()
        wiped.start()
        cluster.network.heal()
        cluster.run(10_000)
        assert cluster.leaders() == []
        leader.start()
        cluster.until(cluster.is_whole)
        cluster.check_acknowledged()

    def test_the_old_one_goes_before_the_new_one_comes(self) -> None:
        cluster = Controllers(3).begin()
        wiped = cluster.followers()[0]
        sets: list[frozenset[int]] = []
        leader = cluster.active()
        assert leader is not None
        leader.voters._on_change = lambda voters: sets.append(voters.ids)
        wiped.lose_disk()
        wiped.start()
        cluster.until(cluster.is_whole)
        assert sets == [frozenset({1, 2, 3} - {wiped.node_id}), frozenset({1, 2, 3})]

    def test_another_leader_finishes_it(self) -> None:
        """The set without the old disk says who is about to return."""
        cluster = Controllers(5).begin()
        wiped = cluster.followers()[0]
        old = cluster.active_machine()
        leader = cluster.active()
        assert leader is not None
        leader.voters._on_change = lambda voters: cluster.world.after(0.0, old.lose_power)
        wiped.lose_disk()
        wiped.start()
        cluster.until(lambda: not old.alive)
        cluster.until(cluster.active)
        cluster.until(lambda: len(ids(cluster)) == 5 and not cluster.leader().voters.latest.returning)  # type: ignore[union-attr]
        cluster.until(lambda: cluster.quorum(wiped.node_id).election.is_voter)
        old.start()
        cluster.until(cluster.is_whole)
