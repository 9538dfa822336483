"""Members that join a classic group, and those that are refused."""

from tidelog.errors import ErrorCode
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import Groups


class TestFirstGeneration:
    def test_it_waits_for_more_members(self, groups: Groups) -> None:
        first = groups.join()
        groups.advance(99)
        assert first.waits
        groups.advance(1)
        assert first.answer.generation == 1

    def test_each_that_comes_extends_the_wait(self, groups: Groups) -> None:
        first = groups.join()
        groups.advance(60)
        second = groups.join()
        groups.advance(99)
        assert first.waits
        assert second.waits
        groups.advance(41)
        assert {first.answer.generation, second.answer.generation} == {1}

    def test_the_wait_ends_with_the_rebalance_timeout(self, groups: Groups) -> None:
        first = groups.join(rebalance_timeout_ms=250)
        for _ in range(5):
            groups.advance(50)
            groups.join(rebalance_timeout_ms=250)
        assert first.answer.generation == 1

    def test_the_leader_hears_of_everyone_and_the_others_of_nobody(self, groups: Groups) -> None:
        joins = [groups.join() for _ in range(3)]
        groups.advance(1000)
        leader = joins[0].answer.leader
        for join in joins:
            leads = join.answer.member_id == leader
            assert len(join.answer.members) == (3 if leads else 0)
            assert join.answer.leader == leader
        assert [member.metadata for member in joins[0].answer.members] == [b"metadata"] * 3

    def test_a_refused_member_leaves_no_group_behind(self, groups: Groups) -> None:
        assert groups.join("stranger").error == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.join(protocols=()).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert groups.join(protocol_type="").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        for texts in ({"instance_id": "i" * 32_768}, {"protocol_type": "ü" * 16_384}):
            assert groups.join(**texts).error == ErrorCode.INVALID_REQUEST
        assert groups.join(protocols=(("p" * 32_768, b""),)).error == ErrorCode.INVALID_REQUEST
        assert groups.join(session_timeout_ms=5_999).error == ErrorCode.INVALID_SESSION_TIMEOUT
        assert groups.join(session_timeout_ms=1_800_001).error == ErrorCode.INVALID_SESSION_TIMEOUT
        assert not groups.shard.groups


class TestKnownIds:
    """A new member is given an id first, so that a lost answer leaves no ghost in the group."""

    def test_the_id_is_given_and_then_taken(self, groups: Groups) -> None:
        refused = groups.join(needs_known_id=True).answer
        assert refused.error == ErrorCode.MEMBER_ID_REQUIRED
        assert groups.state is ClassicGroupState.EMPTY
        joined = groups.join(refused.member_id, needs_known_id=True)
        groups.advance(100)
        assert joined.answer.member_id == refused.member_id
        assert joined.answer.error == ErrorCode.NONE

    def test_an_id_nobody_takes_expires(self, groups: Groups) -> None:
        given = groups.join(needs_known_id=True).answer.member_id
        groups.advance(10_000)
        assert groups.join(given, needs_known_id=True).error == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_rebalance_waits_for_ids_that_were_given_out(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        given = groups.join(needs_known_id=True).answer.member_id
        again = [groups.join(leader), groups.join(follower, protocols=(("range", b"x"),))]
        assert all(join.waits for join in again)
        joined = groups.join(given)
        assert [join.answer.generation for join in [*again, joined]] == [2, 2, 2]

    def test_but_not_for_ever(self, groups: Groups) -> None:
        (leader,) = groups.form(1)
        groups.join(needs_known_id=True)
        again = groups.join(leader)
        groups.advance(9_999)
        assert again.waits
        groups.advance(1)
        assert again.answer.generation == 2

    def test_an_id_may_be_given_back(self, groups: Groups) -> None:
        (leader,) = groups.form(1)
        given = groups.join(needs_known_id=True).answer.member_id
        again = groups.join(leader)
        assert groups.leave(given) == [ErrorCode.NONE]
        assert again.answer.generation == 2


class TestProtocols:
    def test_the_most_wanted_of_those_all_have(self, groups: Groups) -> None:
        wishes = [("a", "b", "c"), ("b", "a"), ("c", "b", "a")]
        joins = [groups.join(protocols=tuple((name, b"") for name in wish)) for wish in wishes]
        groups.advance(1000)
        assert {join.answer.protocol for join in joins} == {"b"}

    def test_a_member_without_a_common_protocol_is_refused(self, groups: Groups) -> None:
        groups.form(2)
        assert groups.join(protocols=(("other", b""),)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert groups.join(protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert groups.state is ClassicGroupState.STABLE

    def test_an_empty_group_takes_any(self, groups: Groups) -> None:
        groups.leave(*groups.form(2))
        joined = groups.join(protocol_type="connect", protocols=(("other", b""),))
        groups.advance(1000)
        assert (joined.answer.protocol_type, joined.answer.protocol) == ("connect", "other")


class TestSize:
    def test_a_full_group_takes_nobody(self) -> None:
        groups = Groups(group_max_size=2)
        leader, follower = groups.form(2)
        assert groups.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert groups.state is ClassicGroupState.STABLE
        assert not groups.join(follower).waits
        assert groups.join(leader).waits

    def test_a_group_that_waits_for_members_takes_only_so_many(self) -> None:
        groups = Groups(group_max_size=2)
        joins = [groups.join() for _ in range(3)]
        assert joins[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED
        groups.advance(1000)
        assert [join.answer.generation for join in joins[:2]] == [1, 1]

    def test_a_lowered_limit_counts_from_the_next_coordinator_on(self) -> None:
        groups = Groups()
        groups.form(3)
        smaller = groups.successor(group_max_size=2)
        assert smaller.state is ClassicGroupState.PREPARING
        joins = [smaller.join(member) for member in list(smaller.group.members)]
        assert [join.waits for join in joins] == [True, True, False]
        assert joins[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED


class TestStaticMembers:
    def form(self, groups: Groups) -> list[str]:
        joins = [groups.join(instance_id=name) for name in ("a", "b")]
        groups.advance(1000)
        ids = [join.answer.member_id for join in joins]
        groups.share(ids)
        return ids

    def test_they_come_back_without_a_rebalance(self, groups: Groups) -> None:
        leader, follower = self.form(groups)
        back = groups.join(instance_id="b")
        assert back.answer.generation == 1
        assert back.answer.member_id != follower
        assert groups.sync(back.answer.member_id, 1, instance_id="b").answer.assignment == follower.encode()
        assert groups.state is ClassicGroupState.STABLE
        assert groups.successor().group.members.keys() == {leader, back.answer.member_id}

    def test_the_old_self_is_fenced(self, groups: Groups) -> None:
        _, follower = self.form(groups)
        groups.join(instance_id="b")
        assert groups.heartbeat(follower, 1, "b") == ErrorCode.FENCED_INSTANCE_ID
        assert groups.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.sync(follower, 1, instance_id="b").error == ErrorCode.FENCED_INSTANCE_ID
        assert groups.join(follower, instance_id="b").error == ErrorCode.FENCED_INSTANCE_ID
        assert groups.leave((follower, "b")) == [ErrorCode.FENCED_INSTANCE_ID]
        refused = groups.commit_offset(1, member_id=follower, instance_id="b", generation=1)
        assert refused == ErrorCode.FENCED_INSTANCE_ID

    def test_the_leader_comes_back(self, groups: Groups) -> None:
        self.form(groups)
        back = groups.join(instance_id="a").answer
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
        older = groups.join(instance_id="a", can_skip_assignment=False).answer
        # It must not assign anew, and would if it heard that it leads.
        assert (older.leader, older.skip_assignment, older.members) == (back.member_id, False, ())
        assert groups.group.leader == older.member_id

    def test_the_new_id_counts_when_it_is_written(self, groups: Groups) -> None:
        self.form(groups)
        groups.held = True
        back = groups.join(instance_id="b")
        assert back.waits
        groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups.commit()
        assert back.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups.held, groups.refusal = False, ErrorCode.NONE
        assert groups.join(instance_id="b").answer.generation == 1

    def test_other_wishes_mean_a_rebalance(self, groups: Groups) -> None:
        joins = [groups.join(instance_id=name, protocols=(("x", b""), ("y", b""))) for name in ("a", "b")]
        groups.advance(1000)
        groups.share([join.answer.member_id for join in joins])
        back = groups.join(instance_id="b", protocols=(("y", b""),))
        assert back.waits
        assert groups.state is ClassicGroupState.PREPARING

    def test_one_that_is_away_keeps_its_place_during_a_rebalance(self, groups: Groups) -> None:
        leader, follower = self.form(groups)
        again = groups.join(leader, instance_id="a")
        for _ in range(12):
            groups.advance(5_000)
            groups.heartbeat(follower, 1, "b")
        assert again.answer.generation == 2
        assert {member.instance_id for member in again.answer.members} == {"a", "b"}

    def test_waiting_requests_of_the_old_self_are_answered(self, groups: Groups) -> None:
        leader, follower = self.form(groups)
        first = groups.join(leader, instance_id="a")
        second = groups.join(instance_id="a")
        assert first.error == ErrorCode.FENCED_INSTANCE_ID
        assert groups.join(follower, instance_id="b").answer.generation == 2
        assert second.answer.generation == 2

    def test_a_dead_one_is_removed_like_any_other(self, groups: Groups) -> None:
        leader, _ = self.form(groups)
        for _ in range(11):
            groups.heartbeat(leader, 1, "a")
            groups.advance(1000)
        assert groups.group.static_ids == {"a": leader}
        assert groups.join(leader, instance_id="a").answer.generation == 2
