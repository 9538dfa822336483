"""Classic groups as a whole: separate from each other, and passed on to the next coordinator."""

from tidelog.errors import ErrorCode
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import GROUP, RANGE, Groups


class TestNextCoordinator:
    def test_members_and_assignments_are_there_again(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        after = groups.successor()
        assert after.state is ClassicGroupState.STABLE
        assert after.heartbeat(follower, 1) == ErrorCode.NONE
        assert after.sync(follower, 1).answer.assignment == follower.encode()
        assert after.group.leader == leader
        assert after.join(leader).waits

    def test_sessions_begin_anew(self, groups: Groups) -> None:
        leader, _ = groups.form(2)
        after = groups.successor()
        after.advance(9_999)
        after.heartbeat(leader, 1)
        after.advance(1)
        assert set(after.group.members) == {leader}

    def test_who_waits_is_sent_there(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        follower = joins[1].answer.member_id
        syncing = groups.sync(follower, 1)
        joining = groups.join(group="other")
        groups.do(groups.shard.stop())
        assert (syncing.error, joining.error) == (ErrorCode.NOT_COORDINATOR,) * 2

    def test_a_write_that_ends_after_that_answers_nobody_twice(self, groups: Groups) -> None:
        join = groups.join()
        groups.advance(1000)
        groups.held = True
        syncing = groups.sync(join.answer.member_id, 1)
        groups.do(groups.shard.stop())
        groups.commit()
        assert syncing.error == ErrorCode.NOT_COORDINATOR


def test_groups_do_not_meet(groups: Groups) -> None:
    mine, others = groups.join(), groups.join(group="other")
    groups.advance(1000)
    assert (len(mine.answer.members), len(others.answer.members)) == (1, 1)
    assert set(groups.shard.groups) == {GROUP, "other"}
    assert RANGE[0][0] == mine.answer.protocol
