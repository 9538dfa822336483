"""What follows a write is kept by the shard, under the token of the effect."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.groups.effects import AppendRecords
from tidelog.groups.offset_requests import CommitRequest, OffsetToCommit
from unit.groups.group_harness import GROUP, Groups

COMMIT = CommitRequest(GROUP, "", None, -1, [OffsetToCommit("t", 0, 5, -1, "m")], 9)


def test_the_same_events_have_equal_effects() -> None:
    first, second = Groups(), Groups()
    for _ in range(3):
        (effect,) = first.shard.commit(COMMIT, "w", first.now)
        assert [effect] == second.shard.commit(COMMIT, "w", second.now)
        assert isinstance(effect, AppendRecords)
        effects = first.shard.appended(effect.token, ErrorCode.NONE, first.now)
        assert effects == second.shard.appended(effect.token, ErrorCode.NONE, second.now)
        assert repr(effects) == f"[Respond(waiter='w', response=[{ErrorCode.NONE!r}])]"


def test_a_token_is_valid_once() -> None:
    groups = Groups()
    (effect,) = groups.shard.commit(COMMIT, "w", groups.now)
    assert isinstance(effect, AppendRecords)
    groups.shard.appended(effect.token, ErrorCode.NONE, groups.now)
    with pytest.raises(KeyError):
        groups.shard.appended(effect.token, ErrorCode.NONE, groups.now)


@pytest.mark.parametrize("refusal", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_nothing_waits_when_all_writes_have_ended(refusal: ErrorCode) -> None:
    groups = Groups()
    members = groups.form(2)
    groups.refusal = refusal
    groups.held = True
    writes = [
        groups.commit_offset(5, partition=number, member_id=members[0], generation=1) for number in (0, 1)
    ]
    groups.leave(*members)
    waiting = groups.ask(lambda waiter, now: groups.shard.delete(GROUP, waiter, now))
    assert len(groups.shard.writes) > 0
    groups.commit()
    assert len(groups.shard.writes) == 0
    assert [each.answer for each in writes] == [[refusal], [refusal]]
    assert waiting.answer == refusal
