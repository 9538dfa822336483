"""Members that leave a classic group."""

from tidelog.errors import ErrorCode
from unit.groups.group_harness import Groups


class TestLeaving:
    def test_each_one_is_told(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        static = groups.join(instance_id="s")
        joins = [groups.join(leader), groups.join(follower), static]
        ids = [join.answer.member_id for join in joins]
        assert groups.leave("stranger", (ids[0], None), ("", "s"), ("", "t"), ("x", "s"), ("", None)) == [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert set(groups.group.members) == {follower}

    def test_a_group_that_does_not_exist(self, groups: Groups) -> None:
        assert groups.leave("a", "b") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2

    def test_who_leaves_while_it_waits_is_answered(self, groups: Groups) -> None:
        waiting = groups.join()
        groups.leave(next(iter(groups.group.members)))
        assert waiting.error == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_others_go_on(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        groups.leave(leader)
        again = groups.join(follower)
        assert (again.answer.generation, again.answer.leader) == (2, follower)
