"""Members of a classic group get their assignments."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.groups.classic.messages import SyncResponse
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import Groups


class TestSync:
    def test_nobody_hears_before_the_assignment_is_committed(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        leader, follower = (join.answer.member_id for join in joins)
        groups.held = True
        follows = groups.sync(follower, 1)
        leads = groups.sync(leader, 1, {leader: b"l", follower: b"f"})
        assert follows.waits
        assert leads.waits
        assert groups.state is ClassicGroupState.COMPLETING
        groups.commit()
        assert leads.answer == SyncResponse(ErrorCode.NONE, "consumer", "range", b"l")
        assert follows.answer == SyncResponse(ErrorCode.NONE, "consumer", "range", b"f")

    def test_a_late_follower_gets_its_part_at_once(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        leader, follower = (join.answer.member_id for join in joins)
        groups.sync(leader, 1, {follower: b"f"})
        assert groups.sync(follower, 1).answer.assignment == b"f"
        assert groups.sync(leader, 1).answer.assignment == b""

    def test_an_assignment_that_cannot_be_written_is_told_to_all(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        leader, follower = (join.answer.member_id for join in joins)
        follows = groups.sync(follower, 1)
        groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        leads = groups.sync(leader, 1, {leader: b"l"})
        assert (leads.error, follows.error) == (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * 2
        assert groups.state is ClassicGroupState.PREPARING

    def test_an_assignment_that_is_too_large(self, groups: Groups) -> None:
        join = groups.join()
        groups.advance(1000)
        groups.refusal = ErrorCode.MESSAGE_TOO_LARGE
        synced = groups.sync(join.answer.member_id, 1)
        assert synced.error == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_rebalance_while_the_assignment_is_written(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(1000)
        leader, follower = (join.answer.member_id for join in joins)
        groups.held = True
        leads = groups.sync(leader, 1, {leader: b"l", follower: b"f"})
        groups.join()
        assert leads.answer.error == ErrorCode.REBALANCE_IN_PROGRESS
        groups.commit()
        assert groups.state is ClassicGroupState.PREPARING
        assert groups.sync(follower, 1).error == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_does_not_sync_is_out(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(2)]
        groups.advance(100 * 3)
        leader, follower = (join.answer.member_id for join in joins)
        groups.sync(leader, 1, {})
        for _ in range(61):
            groups.heartbeat(leader, 1)
            groups.heartbeat(follower, 1)
            groups.advance(1000)
        assert set(groups.group.members) == {leader}
        assert groups.state is ClassicGroupState.PREPARING

    @pytest.mark.parametrize(
        ("more", "error"),
        [
            ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
            ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ],
    )
    def test_refusals_change_nothing(self, groups: Groups, more: dict[str, object], error: ErrorCode) -> None:
        join = groups.join()
        groups.advance(1000)
        before = groups.log
        fields = {"member_id": join.answer.member_id, "generation": 1, **more}
        assert groups.sync(**fields).error == error
        assert groups.state is ClassicGroupState.COMPLETING
        assert groups.log == before
