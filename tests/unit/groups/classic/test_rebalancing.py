"""Rebalances of a classic group."""

from tidelog.errors import ErrorCode
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import Groups


class TestRebalance:
    def test_everyone_joins_again(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        newcomer = groups.join()
        assert groups.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        again = [groups.join(leader), groups.join(follower)]
        generations = [join.answer.generation for join in [*again, newcomer]]
        assert generations == [2, 2, 2]
        assert newcomer.answer.leader == leader

    def test_who_is_late_is_out(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        newcomer = groups.join()
        again = groups.join(leader)
        for _ in range(6):
            groups.advance(9_999)
            assert groups.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert newcomer.waits
        groups.advance(6)
        assert [join.answer.generation for join in (again, newcomer)] == [2, 2]
        assert groups.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_another_leads_when_the_leader_is_late(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        again = groups.join(follower, protocols=(("range", b"x"),))
        groups.advance(60_000)
        assert again.answer.leader == follower
        assert [member.member_id for member in again.answer.members] == [follower]
        assert leader not in groups.group.members

    def test_a_member_that_missed_the_answer_gets_the_same_again(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        for join in joins:
            again = groups.join(join.answer.member_id)
            assert again.answer == join.answer
        assert groups.state is ClassicGroupState.COMPLETING

    def test_a_follower_may_join_a_stable_group_again(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        again = groups.join(follower)
        assert (again.answer.generation, again.answer.leader, again.answer.members) == (1, leader, ())
        assert groups.state is ClassicGroupState.STABLE

    def test_a_member_that_asks_twice_is_answered_twice(self, groups: Groups) -> None:
        first = groups.join()
        member_id = next(iter(groups.group.members))
        second = groups.join(member_id)
        assert first.answer.error == ErrorCode.REBALANCE_IN_PROGRESS
        groups.advance(200)
        assert second.answer.generation == 1

    def test_a_group_of_which_all_leave_is_empty(self, groups: Groups) -> None:
        members = groups.form(3)
        assert groups.leave(*members) == [ErrorCode.NONE] * 3
        assert groups.state is ClassicGroupState.EMPTY
        assert groups.group.generation == 2
        assert groups.successor().state is ClassicGroupState.EMPTY
