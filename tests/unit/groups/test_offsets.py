"""Committed offsets: who may commit, what is read back, what expires, and what transactions leave behind."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.states import ClassicGroupState
from unit.groups.group_harness import GROUP, Groups

SUBSCRIPTION = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"  # version 1, topics: t
READS_T = (("range", SUBSCRIPTION),)
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


@pytest.fixture
def groups() -> Groups:
    return Groups(offsets_retention_check_interval_ms=HOUR_MS)


def fetch(groups: Groups, *keys: tuple[str, int], stable: bool = True, group: str = GROUP) -> list[Any]:
    found = groups.shard.fetch(group, list(keys) or None, require_stable=stable)
    return [(one.topic, one.partition, one.committed and one.committed.offset, one.error) for one in found]


class TestCommitting:
    def test_from_outside_of_an_empty_group(self, groups: Groups) -> None:
        assert groups.commit_offset(5) == ErrorCode.NONE
        assert fetch(groups, ("t", 0), ("t", 1)) == [("t", 0, 5, 0), ("t", 1, None, 0)]
        assert fetch(groups) == [("t", 0, 5, 0)]
        assert groups.state is ClassicGroupState.EMPTY

    def test_what_is_read_is_committed(self, groups: Groups) -> None:
        groups.held = True
        pending = groups.commit_offset(5)
        assert pending.waits
        assert groups.offset() is None
        groups.commit()
        assert pending.answer == [ErrorCode.NONE]
        assert groups.offset() == 5

    def test_what_cannot_be_written_is_not_there(self, groups: Groups) -> None:
        groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert groups.commit_offset(5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        groups.refusal = ErrorCode.MESSAGE_TOO_LARGE
        assert groups.commit_offset(5) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        assert groups.offset() is None
        assert not groups.shard.groups

    def test_of_a_group_that_is_gone(self, groups: Groups) -> None:
        for version, error in ((8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)):
            assert groups.commit_offset(5, generation=1, member_id="m", version=version) == error

    def test_only_members_commit_where_there_are_members(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        assert groups.commit_offset(5) == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.commit_offset(5, member_id=follower, generation=1) == ErrorCode.NONE
        assert groups.commit_offset(6, member_id=follower, generation=0) == ErrorCode.ILLEGAL_GENERATION
        assert groups.commit_offset(6, member_id="x", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert groups.commit_offset(6, member_id=leader) == ErrorCode.ILLEGAL_GENERATION
        assert groups.offset() == 5

    def test_during_a_rebalance(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        groups.join(leader)
        assert groups.commit_offset(5, member_id=follower, generation=1) == ErrorCode.NONE
        groups.join(follower)
        assert groups.state is ClassicGroupState.COMPLETING
        late = groups.commit_offset(6, member_id=follower, generation=1)
        assert late == ErrorCode.ILLEGAL_GENERATION
        early = groups.commit_offset(6, member_id=follower, generation=2)
        assert early == ErrorCode.REBALANCE_IN_PROGRESS

    def test_oversized_metadata(self, groups: Groups) -> None:
        assert groups.commit_offset(5, metadata="x" * 4096) == ErrorCode.NONE
        assert groups.commit_offset(6, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert groups.commit_offset(7, metadata=None, partition=1) == ErrorCode.NONE
        assert fetch(groups) == [("t", 0, 5, 0), ("t", 1, 7, 0)]

    def test_the_next_coordinator_has_them(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.commit_offset(6)
        groups.commit_offset(7, partition=1)
        after = groups.successor()
        assert fetch(after) == [("t", 0, 6, 0), ("t", 1, 7, 0)]
        committed = after.shard.offsets.get(GROUP, "t", 0)
        assert committed is not None
        assert (committed.leader_epoch, committed.metadata) == (3, "m")
        assert after.state is ClassicGroupState.EMPTY


class TestTransactions:
    def test_they_count_when_the_transaction_commits(self, groups: Groups) -> None:
        groups.commit_offset(1)
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        assert fetch(groups, stable=False) == [("t", 0, 1, 0)]
        assert fetch(groups, ("t", 0), ("t", 1)) == [
            ("t", 0, None, ErrorCode.UNSTABLE_OFFSET_COMMIT),
            ("t", 1, None, 0),
        ]
        assert fetch(groups) == [("t", 0, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
        groups.shard.marker(9, True)
        assert fetch(groups) == [("t", 0, 5, 0)]

    def test_or_vanish_when_it_aborts(self, groups: Groups) -> None:
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        groups.shard.marker(9, False)
        assert fetch(groups) == []
        assert fetch(groups, ("t", 0)) == [("t", 0, None, 0)]

    def test_producers_do_not_meet(self, groups: Groups) -> None:
        groups.commit_offset(5, producer_id=8, producer_epoch=0)
        groups.commit_offset(6, producer_id=9, producer_epoch=0, partition=1)
        groups.shard.marker(9, True)
        groups.shard.marker(9, False)
        assert fetch(groups, stable=False) == [("t", 1, 6, 0)]

    def test_a_later_commit_wins_over_an_earlier_transaction(self, groups: Groups) -> None:
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        groups.commit_offset(7)
        groups.shard.marker(9, True)
        assert groups.offset() == 7

    def test_the_next_coordinator_knows_what_is_pending(self, groups: Groups) -> None:
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        after = groups.successor()
        assert fetch(after, ("t", 0)) == [("t", 0, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
        after.shard.marker(9, True)
        assert after.offset() == 5
        assert after.state is ClassicGroupState.EMPTY

    def test_members_of_old_clients_need_not_say_who_they_are(self, groups: Groups) -> None:
        leader, _ = groups.form(2)
        assert groups.commit_offset(5, producer_id=9, producer_epoch=0) == ErrorCode.NONE
        fenced = groups.commit_offset(5, producer_id=9, producer_epoch=0, member_id=leader, generation=0)
        assert fenced == ErrorCode.ILLEGAL_GENERATION
        gone = groups.commit_offset(5, producer_id=9, producer_epoch=0, generation=1, group="none")
        assert gone == ErrorCode.ILLEGAL_GENERATION


class TestDeleting:
    def delete(self, groups: Groups, *keys: tuple[str, int]) -> Any:
        pending = groups.ask(lambda waiter, now: groups.shard.delete_offsets(GROUP, list(keys), waiter, now))
        return pending.answer.code if isinstance(pending.answer, TidelogError) else pending.answer

    def test_offsets(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.commit_offset(6, partition=1)
        assert self.delete(groups, ("t", 0), ("t", 7)) == [0, 0]
        assert fetch(groups) == [("t", 1, 6, 0)]
        assert fetch(groups.successor()) == [("t", 1, 6, 0)]

    def test_pending_ones_too(self, groups: Groups) -> None:
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        assert self.delete(groups, ("t", 0)) == [0]
        groups.shard.marker(9, True)
        assert fetch(groups) == fetch(groups.successor()) == []

    def test_not_of_topics_that_are_read(self, groups: Groups) -> None:
        (leader,) = groups.form(1, protocols=READS_T)
        for topic in ("t", "u"):
            groups.commit_offset(5, topic=topic, member_id=leader, generation=1)
        assert self.delete(groups, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
        assert fetch(groups) == [("t", 0, 5, 0)]

    def test_not_while_nobody_knows_what_is_read(self, groups: Groups) -> None:
        assert self.delete(groups, ("t", 0)) == ErrorCode.GROUP_ID_NOT_FOUND
        groups.form(1, protocol_type="connect")
        assert self.delete(groups, ("t", 0)) == ErrorCode.NON_EMPTY_GROUP
        groups = Groups()
        (leader,) = groups.form(1, protocols=(("range", b"not a subscription"),))
        groups.commit_offset(5, member_id=leader, generation=1)
        assert self.delete(groups, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]

    def test_a_refused_write_deletes_nothing(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.refusal = ErrorCode.NOT_COORDINATOR
        assert self.delete(groups, ("t", 0)) == [ErrorCode.NOT_COORDINATOR]
        assert groups.offset() == 5

    def test_of_deleted_topics(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.commit_offset(5, topic="u")
        groups.commit_offset(5, group="other")
        groups.do(groups.shard.topics_deleted(["t"]))
        assert fetch(groups) == [("u", 0, 5, 0)]
        assert fetch(groups, group="other") == []


class TestDeletingGroups:
    def delete(self, groups: Groups) -> ErrorCode:
        pending = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
        answer = pending.answer
        return answer.code if isinstance(answer, TidelogError) else answer

    def test_with_all_that_belongs_to_them(self, groups: Groups) -> None:
        groups.leave(*groups.form(2))
        for partition in range(2500):
            groups.commit_offset(partition, partition=partition)
        groups.commit_offset(5, producer_id=9, producer_epoch=0)
        assert self.delete(groups) == ErrorCode.NONE
        for shard in (groups.shard, groups.successor().shard):
            assert not shard.groups
            assert len(shard.offsets) == 0
        groups.shard.marker(9, True)
        assert fetch(groups) == []

    def test_not_with_members(self, groups: Groups) -> None:
        assert self.delete(groups) == ErrorCode.GROUP_ID_NOT_FOUND
        groups.form(2)
        assert self.delete(groups) == ErrorCode.NON_EMPTY_GROUP
        assert groups.state is ClassicGroupState.STABLE

    def test_a_refused_write_deletes_nothing(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.refusal = ErrorCode.NOT_COORDINATOR
        assert self.delete(groups) == ErrorCode.NOT_COORDINATOR
        assert groups.offset() == 5
        assert GROUP in groups.shard.groups

    def test_somebody_joins_meanwhile(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.held = True
        deleted = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
        joined = groups.join()
        groups.held = False
        groups.commit()
        assert deleted.answer == ErrorCode.NONE
        groups.advance(1000)
        assert joined.answer.generation == 1
        groups.share([joined.answer.member_id])
        assert groups.successor().state is ClassicGroupState.STABLE

    def test_somebody_commits_meanwhile(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.held = True
        deleted = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
        committed = groups.commit_offset(6)
        groups.held = False
        groups.commit()
        assert (deleted.answer, committed.answer) == (ErrorCode.NONE, [ErrorCode.NONE])
        assert groups.offset() == groups.successor().offset() == 6
        assert groups.state is ClassicGroupState.EMPTY


class TestExpiry:
    def test_of_a_group_without_members_each_for_itself(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.advance(WEEK_MS // 2)
        groups.commit_offset(6, partition=1)
        groups.advance(WEEK_MS // 2 + HOUR_MS)
        assert fetch(groups) == [("t", 1, 6, 0)]
        groups.advance(WEEK_MS // 2 + HOUR_MS)
        assert fetch(groups) == []
        assert not groups.shard.groups
        assert not groups.successor().shard.groups

    def test_of_a_group_that_had_members_since_the_last_of_them_left(self, groups: Groups) -> None:
        members = groups.form(2)
        groups.commit_offset(5, member_id=members[0], generation=1)
        for _ in range(200):
            for member in members:
                groups.heartbeat(member, 1)
            groups.advance(9_000)
        groups.leave(*members)
        groups.advance(WEEK_MS - HOUR_MS)
        assert groups.offset() == 5
        groups.advance(2 * HOUR_MS)
        assert groups.offset() is None
        assert not groups.shard.groups

    def test_not_of_topics_that_members_read(self) -> None:
        groups = Groups(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
        (leader,) = groups.form(1, protocols=READS_T)
        for topic in ("t", "u"):
            groups.commit_offset(5, topic=topic, member_id=leader, generation=1)
        for _ in range(100):
            groups.heartbeat(leader, 1)
            groups.advance(1000)
        assert fetch(groups) == [("t", 0, 5, 0)]

    def test_not_while_a_transaction_has_written_them(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.commit_offset(6, producer_id=9, producer_epoch=0)
        groups.advance(WEEK_MS + 2 * HOUR_MS)
        assert groups.offset() == 5
        groups.shard.marker(9, True)
        groups.advance(2 * HOUR_MS)
        assert groups.offset() is None

    def test_not_while_a_newer_one_is_being_written(self, groups: Groups) -> None:
        groups.commit_offset(5)
        groups.held = True
        groups.advance(WEEK_MS - HOUR_MS)
        groups.commit_offset(6)
        groups.advance(3 * HOUR_MS)
        groups.held = False
        groups.commit()
        assert groups.offset() == groups.successor().offset() == 6

    def test_as_old_clients_asked(self, groups: Groups) -> None:
        groups.commit_offset(5, retention_ms=1000, version=2)
        groups.commit_offset(6, partition=1, retention_ms=2 * WEEK_MS, version=2)
        groups.advance(HOUR_MS)
        assert fetch(groups) == [("t", 1, 6, 0)]
        groups.advance(WEEK_MS + HOUR_MS)
        assert groups.offset(partition=1) == 6
        assert fetch(groups.successor()) == [("t", 1, 6, 0)]

    @pytest.mark.slow
    def test_of_very_many_groups(self, groups: Groups) -> None:
        for number in range(1000):
            groups.commit_offset(5, group=f"group-{number}")
        groups.advance(WEEK_MS + 2 * HOUR_MS)
        assert not groups.shard.groups


class TestListing:
    def test_by_state_and_kind(self, groups: Groups) -> None:
        groups.form(2)
        groups.commit_offset(5, group="simple")

        def names(states: set[str], kinds: set[str]) -> list[str]:
            return sorted(listed.group_id for listed in groups.shard.list(states, kinds) if listed)

        assert names(set(), set()) == ["g", "simple"]
        assert names({"stable"}, set()) == ["g"]
        assert names({"empty", "dead"}, {"classic"}) == ["simple"]
        assert names(set(), {"consumer"}) == []
        (listed,) = filter(None, groups.shard.list({"stable"}, set()))
        assert listed == ("g", "consumer", "Stable", "classic")

    def test_descriptions(self, groups: Groups) -> None:
        leader, follower = groups.form(2)
        found = groups.shard.describe(GROUP)
        assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
        assert {member.member_id: member.assignment for member in found.members} == {
            leader: leader.encode(),
            follower: follower.encode(),
        }
        groups.join(leader)
        found = groups.shard.describe(GROUP)
        assert (found.state, found.protocol) == ("PreparingRebalance", "")
        assert {member.metadata for member in found.members} == {b""}
        with pytest.raises(TidelogError) as refusal:
            groups.shard.describe("none")
        assert refusal.value.code == ErrorCode.GROUP_ID_NOT_FOUND
