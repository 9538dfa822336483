"""Consumer groups in a shard: when they are answered, what stays over a change of coordinators, offsets."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer.heartbeats import LEAVE
from unit.groups.consumer.mixed_groups import MixedGroups
from unit.groups.group_harness import GROUP


def test_answers_wait_for_the_log() -> None:
    groups = MixedGroups()
    groups.held = True
    joining = groups.enter("a")
    assert joining.waits
    again = groups.beat("a", 1)
    assert again.waits, "nothing to write, but what it would tell is not written yet"
    groups.commit()
    assert joining.answer.epoch == again.answer.epoch == 1
    assert groups.beat("a", 1).answer.epoch == 1, "nothing to write, nothing to wait for"


def test_answers_wait_for_the_newest_change() -> None:
    groups = MixedGroups()
    groups.held = True
    groups.enter("a")
    second = groups.enter("b")
    again = groups.enter("b")
    groups.commit(1)
    assert second.waits
    assert again.waits
    groups.commit()
    assert second.answer.epoch == again.answer.epoch == 2


def test_who_asks_again_is_refused_with_the_write() -> None:
    """A coordinator that was replaced has given away in vain what it could not write down."""
    groups = MixedGroups()
    groups.held = True
    joining = groups.enter("a")
    again = groups.enter("a")
    groups.refusal = ErrorCode.NOT_COORDINATOR
    groups.commit()
    assert joining.answer.code == again.answer.code == ErrorCode.NOT_COORDINATOR
    assert groups.reloads == 1


def test_a_failed_write_is_told_and_the_shard_read_again() -> None:
    groups = MixedGroups()
    groups.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.enter("a").answer.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.reloads == 1


def test_a_refused_member_leaves_no_group_behind() -> None:
    groups = MixedGroups()
    assert groups.enter("a", assignor="none").answer.code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert groups.shard.groups == {}


def test_a_member_of_a_group_that_does_not_exist_is_to_join_again() -> None:
    """Upon any other code, clients would give up or repeat the heartbeat for ever."""
    groups = MixedGroups()
    for epoch in (1, LEAVE):
        assert groups.beat("a", epoch).answer.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.shard.groups == {}
    assert groups.enter("a").answer.epoch == 1


def test_more_than_can_be_written_is_refused_before() -> None:
    groups = MixedGroups()
    groups.enter("a")
    before = groups.consumer_group.everything()
    many = tuple(f"{number:0>200}" for number in range(5000))
    assert groups.enter("b", *many).answer.code == ErrorCode.INVALID_REQUEST
    assert groups.beat("a", 1, topics=many).answer.code == ErrorCode.INVALID_REQUEST
    assert groups.consumer_group.everything() == before
    assert groups.reloads == 0
    groups.advance(44_000)
    groups.beat("a", 1)
    groups.advance(44_000)
    assert groups.consumer_group.epoch == 1, "nobody waits for the one that was refused"


def test_too_large_a_group_is_not_even_begun() -> None:
    groups = MixedGroups()
    many = tuple(f"{number:0>200}" for number in range(5000))
    assert groups.enter("a", *many).answer.code == ErrorCode.INVALID_REQUEST
    assert groups.shard.groups == {}


def test_the_next_coordinator_goes_on() -> None:
    groups = MixedGroups()
    groups.enter("a")
    after = MixedGroups(groups.log)
    assert after.beat("a", 1).answer.epoch == 1
    after.advance(45_000)
    assert after.beat("a", 1).answer.code == ErrorCode.UNKNOWN_MEMBER_ID, (
        "the session began anew, and is over"
    )
    assert after.consumer_group.state_name == "Empty"


def test_sessions_end_by_themselves() -> None:
    groups = MixedGroups()
    groups.enter("a")
    groups.advance(30_000)
    groups.enter("b")
    groups.advance(15_000)
    assert list(groups.consumer_group.members) == ["b"]
    groups.advance(30_000)
    assert groups.consumer_group.members == {}
    assert MixedGroups(groups.log).consumer_group.members == {}


def test_how_it_is_listed_and_described() -> None:
    groups = MixedGroups()
    groups.enter("a", instance_id="i")
    (listed,) = filter(None, groups.shard.list((), ("consumer",)))
    assert listed == (GROUP, "consumer", "Stable", "consumer")
    assert not any(groups.shard.list((), ("classic",)))
    with pytest.raises(TidelogError) as refusal:
        groups.shard.describe(GROUP)
    assert refusal.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    described = groups.shard.consumer_describe(GROUP, groups.now)
    assert (described.state, described.epoch, described.assignment_epoch) == ("Stable", 1, 1)
    assert described.assignor == "uniform"
    (member,) = described.members
    assert (member.member_id, member.epoch, member.facts.instance_id) == ("a", 1, "i")
    assert member.assignment == member.target
    assert [(name, partitions) for _, name, partitions in member.target] == [("t", (0, 1, 2, 3))]


def test_a_classic_group_is_not_described() -> None:
    groups = MixedGroups()
    groups.form(1)
    with pytest.raises(TidelogError) as refusal:
        groups.shard.consumer_describe(GROUP, groups.now)
    assert refusal.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_who_may_commit_offsets() -> None:
    groups = MixedGroups()
    assert groups.commit_offset(5) == ErrorCode.NONE, "nobody is in the way"
    groups.enter("a")
    assert groups.commit_offset(6, member_id="a", generation=1) == ErrorCode.NONE
    assert groups.commit_offset(7) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit_offset(7, member_id="b", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit_offset(7, member_id="a", generation=0) == ErrorCode.STALE_MEMBER_EPOCH
    assert groups.commit_offset(7, member_id="a", generation=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert groups.commit_offset(7, member_id="a", generation=1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert groups.offset() == 6
    groups.beat("a", LEAVE)
    assert groups.commit_offset(8) == ErrorCode.NONE
    assert groups.offset() == 8


def test_offsets_of_transactions() -> None:
    groups = MixedGroups()
    groups.enter("a")
    transactional: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    assert groups.commit_offset(5, **transactional) == ErrorCode.NONE, (
        "an older producer does not say who it is"
    )
    assert groups.commit_offset(5, member_id="a", generation=1, **transactional) == ErrorCode.NONE
    assert (
        groups.commit_offset(5, member_id="a", generation=9, **transactional) == ErrorCode.ILLEGAL_GENERATION
    )


def test_who_may_fetch_offsets() -> None:
    groups = MixedGroups()
    groups.commit_offset(5)
    groups.enter("a")

    def fetch(member_id: str | None, epoch: int) -> ErrorCode:
        try:
            groups.shard.fetch(GROUP, None, require_stable=False, member_id=member_id, member_epoch=epoch)
        except TidelogError as refusal:
            return refusal.code
        return ErrorCode.NONE

    assert fetch(None, -1) == ErrorCode.NONE
    assert fetch("a", 1) == ErrorCode.NONE
    assert fetch("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("b", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_subscribed_topics_stay() -> None:
    groups = MixedGroups(offsets_retention_minutes=1)
    groups.commit_offset(1, topic="t")
    groups.commit_offset(1, topic="u")
    groups.enter("a")
    for _ in range(60):
        groups.advance(30_000)
        groups.beat("a", 1)
    assert (groups.offset(topic="t"), groups.offset(topic="u")) == (1, None)


def test_a_group_with_members_is_not_deleted() -> None:
    groups = MixedGroups()
    groups.enter("a")
    groups.commit_offset(1, member_id="a", generation=1)
    pending = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
    assert pending.answer.code == ErrorCode.NON_EMPTY_GROUP
    groups.beat("a", LEAVE)
    pending = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
    assert pending.answer == ErrorCode.NONE
    assert GROUP not in groups.shard.groups
    assert GROUP not in MixedGroups(groups.log).shard.groups


def test_offsets_outlive_the_records_of_a_group() -> None:
    groups = MixedGroups()
    groups.enter("a")
    groups.beat("a", LEAVE)
    groups.log += [(record, -1) for record in groups.consumer_group.tombstones()]
    groups.commit_offset(5)
    after = MixedGroups(groups.log)
    assert after.offset() == 5
    assert after.shard.groups[GROUP].state_name == "Empty"


def test_an_empty_group_without_offsets_goes() -> None:
    groups = MixedGroups()
    groups.enter("a")
    groups.beat("a", LEAVE)
    groups.advance(1_200_000)
    assert GROUP not in groups.shard.groups
    assert GROUP not in MixedGroups(groups.log).shard.groups
