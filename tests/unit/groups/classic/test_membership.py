"""Members of a classic group that show that they are alive."""

from tidelog.errors import ErrorCode
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import Groups


class TestHeartbeat:
    def test_refusals(self, groups: Groups) -> None:
        assert groups.heartbeat("anyone", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        leader, _ = groups.form(2)
        assert groups.heartbeat(leader, 1) == ErrorCode.NONE
        assert groups.heartbeat(leader, 2) == ErrorCode.ILLEGAL_GENERATION
        assert groups.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.heartbeat(leader, 1, "instance") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_silent_member_dies_at_the_end_of_its_session(self, groups: Groups) -> None:
        leader, _ = groups.form(2)
        groups.advance(9_999)
        assert groups.heartbeat(leader, 1) == ErrorCode.NONE
        assert groups.state is ClassicGroupState.STABLE
        groups.advance(1)
        assert set(groups.group.members) == {leader}
        assert groups.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert groups.join(leader).answer.generation == 2

    def test_a_member_that_waits_for_us_does_not_die(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        waiting = groups.join(follower, protocols=(("range", b"x"),))
        for _ in range(5):
            groups.advance(9_000)
            groups.heartbeat(leader, 1)
        assert waiting.waits
        assert groups.join(leader).answer.generation == 2
        assert waiting.answer.generation == 2

    def test_a_commit_is_as_good_as_a_heartbeat(self, groups: Groups) -> None:
        (leader,) = groups.form(1)
        for offset in range(4):
            groups.advance(9_000)
            assert groups.commit_offset(offset, member_id=leader, generation=1) == ErrorCode.NONE
        assert groups.state is ClassicGroupState.STABLE
