"""Members of both protocols in one group, and groups on their way from one protocol to the other."""

from collections.abc import Sequence
from typing import Any

import pytest

from tidelog.errors import ErrorCode
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.consumer import embedded
from tidelog.groups.consumer.records import MemberState
from tidelog.protocol.wire import INT32, Malformed
from unit.groups.consumer.mixed_groups import MixedGroups, NewMember, OldMember, subscription
from unit.groups.group_harness import GROUP

ALL = {0, 1, 2, 3}


def classic_group(groups: MixedGroups, *members: OldMember) -> None:
    """The members in a stable classic group; the first one leads and shares out."""
    for member in members:
        member.join()
    groups.advance(1000)
    ids = [member.joining.answer.member_id for member in members]
    leader = members[0].joining.answer.leader
    shares = {
        name: sorted(part for part in ALL if part % len(ids) == place) for place, name in enumerate(ids)
    }
    for member in sorted(members, key=lambda member: member.joining.answer.member_id == leader):
        member.joined(shares)
    for member in members:
        assert member.synced() == ErrorCode.NONE


def everybody_beats(members: Sequence[NewMember | OldMember], rounds: int = 8) -> None:
    for _ in range(rounds):
        for member in members:
            member.beat()
            held = [place for other in members for place in other.held]
            assert len(held) == len(set(held)), "nobody shares a partition"


@pytest.mark.parametrize("eager", [True, False])
def test_a_group_changes_its_protocol_member_by_member(eager: bool) -> None:
    groups = MixedGroups()
    old = [OldMember(groups, eager=eager) for _ in range(2)]
    classic_group(groups, *old)
    groups.commit_offset(5, member_id=old[0].member_id, generation=1)

    new = [NewMember(groups, "new-0")]
    everybody_beats([*new, *old])
    assert groups.consumer_group.state_name == "Stable"
    assert {len(held) for held in (*(member.held for member in old), *(member.held for member in new))} == {
        1,
        2,
    }

    groups.leave(old[0].member_id)
    new.append(NewMember(groups, "new-1"))
    everybody_beats([*new, old[1]])
    groups.leave(old[1].member_id)
    everybody_beats(new)
    assert set().union(*(member.held for member in new)) == ALL
    assert groups.offset() == 5
    assert MixedGroups(groups.log).consumer_group.everything() == groups.consumer_group.everything()


@pytest.mark.parametrize("eager", [True, False])
def test_and_back(eager: bool) -> None:
    groups = MixedGroups()
    new = NewMember(groups, "new")
    old = [OldMember(groups, eager=eager) for _ in range(2)]
    new.beat()
    for member in old:
        member.join()
        member.joined()
        member.synced()
    everybody_beats([new, *old])
    new.leave()
    group = groups.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicGroupState.PREPARING
    for member in old:
        assert groups.heartbeat(member.member_id, member.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert {embedded.read_assignment(member.assignment).partitions for member in group.members.values()} == {
        (("t", tuple(sorted(member.held))),) for member in old
    }
    classic_group(groups, *old)
    assert groups.state is ClassicGroupState.STABLE
    after = MixedGroups(groups.log)
    assert after.state is ClassicGroupState.STABLE
    assert set(after.group.members) == {member.member_id for member in old}


def test_waiting_members_of_a_classic_group_are_sent_to_rejoin() -> None:
    groups = MixedGroups()
    old = OldMember(groups)
    joining = old.join()
    NewMember(groups, "new").beat()
    assert joining.answer.error == ErrorCode.REBALANCE_IN_PROGRESS
    groups.advance(3_000)
    assert list(groups.consumer_group.members) == [joining.answer.member_id, "new"], (
        "no deadline of the old one"
    )


def test_a_member_in_the_middle_of_its_sync_is_told_to_rejoin() -> None:
    groups = MixedGroups()
    old = OldMember(groups, protocols=(("a", subscription("t")), ("range", subscription("t"))))
    old.join()
    groups.advance(1000)
    NewMember(groups, "new").beat()
    old.joined()
    assert old.synced() == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_empty_classic_group_makes_room() -> None:
    groups = MixedGroups(group_consumer_migration_policy="disabled")
    groups.commit_offset(5)
    groups.enter("a")
    assert groups.consumer_group.state_name == "Stable"
    assert groups.offset() == 5


@pytest.mark.parametrize(
    ("settings", "member"),
    [
        ({"group_consumer_migration_policy": "disabled"}, {}),
        ({"group_consumer_migration_policy": "downgrade"}, {}),
        ({"group_consumer_max_size": 1}, {}),
        ({}, {"protocol_type": "connect"}),
        ({}, {"protocols": (("mine", b"\x00\x01"),)}),
    ],
)
def test_classic_groups_that_stay_as_they_are(settings: dict[str, Any], member: dict[str, Any]) -> None:
    groups = MixedGroups(**settings)
    groups.form(2, **{"protocols": (("range", subscription("t")),), **member})
    assert groups.enter("new").answer.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.state is ClassicGroupState.STABLE


@pytest.mark.parametrize(("assignor", "stays"), [("mine", True), ("sticky", False)])
def test_data_of_an_assignor_of_the_users_own_must_not_get_lost(assignor: str, stays: bool) -> None:
    groups = MixedGroups()
    old = OldMember(groups, protocols=((assignor, subscription("t")),))
    old.join()
    groups.advance(1000)
    answer = old.joining.answer
    assignment = embedded.write_assignment(1, {"t": [0]})[:-4] + INT32.pack(3) + b"abc"
    groups.sync(answer.member_id, answer.generation, {answer.member_id: assignment})
    entered = groups.enter("new").answer
    assert isinstance(groups.shard.groups[GROUP], ClassicGroup) is stays
    assert not stays or entered.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_partition_that_two_members_had() -> None:
    groups = MixedGroups()
    old = [OldMember(groups) for _ in range(2)]
    for member in old:
        member.join()
    groups.advance(1000)
    ids = [member.joining.answer.member_id for member in old]
    for member in reversed(old):
        member.joined({name: [0, 1] for name in ids})
    new = NewMember(groups, "new")
    new.beat()
    groups.consumer_group.check_owners()


def test_without_downgrades_a_consumer_group_stays_one() -> None:
    groups = MixedGroups(group_consumer_migration_policy="upgrade")
    new, old = NewMember(groups, "new"), OldMember(groups)
    new.beat()
    old.join()
    old.joined()
    old.synced()
    new.leave()
    assert groups.consumer_group.kind == "consumer"
    old.beat()
    assert old.held == ALL


def test_the_protocol_of_a_classic_member() -> None:
    groups = MixedGroups()
    groups.enter("new")
    known: dict[str, Any] = {"protocols": (("range", subscription("t")),)}
    assert groups.join(needs_known_id=True, **known).answer.error == ErrorCode.MEMBER_ID_REQUIRED
    assert (
        groups.join("m", protocol_type="connect", **known).answer.code
        == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    refused = groups.join("m", protocols=(("range", b"\x00"),))
    assert refused.answer.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.join("m", **known).answer.error == ErrorCode.NONE
    other = groups.join("n", protocols=(("other", subscription("t")),))
    assert other.answer.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.heartbeat("m", 9) == ErrorCode.ILLEGAL_GENERATION
    assert groups.heartbeat("x", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat("new", 1) == ErrorCode.UNKNOWN_MEMBER_ID, "it speaks the other protocol"
    assert groups.sync("m", 2, protocol="other").answer.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.commit_offset(5, member_id="m", generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert groups.commit_offset(5, member_id="m", generation=2, version=6) == ErrorCode.NONE
    assert groups.leave("m", "x") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_classic_member_that_does_not_rejoin_is_out() -> None:
    groups = MixedGroups()
    groups.enter("new")
    known: dict[str, Any] = {"protocols": (("range", subscription("t")),), "rebalance_timeout_ms": 5_000}
    groups.join("m", session_timeout_ms=20_000, **known)
    groups.sync("m", 2)
    groups.enter("more")
    for _ in range(4):
        assert groups.heartbeat("m", 2) == ErrorCode.REBALANCE_IN_PROGRESS
        groups.advance(1_000)
    groups.advance(1_000)
    assert groups.heartbeat("m", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_sync_is_out() -> None:
    groups = MixedGroups()
    groups.enter("new")
    groups.join("m", protocols=(("range", subscription("t")),), rebalance_timeout_ms=5_000)
    groups.advance(5_000)
    assert "m" not in groups.consumer_group.members


def test_a_classic_members_own_session_counts() -> None:
    groups = MixedGroups()
    groups.enter("new")
    groups.join("m", protocols=(("range", subscription("t")),), session_timeout_ms=6_000)
    groups.sync("m", 2)
    groups.advance(5_999)
    assert "m" in groups.consumer_group.members
    groups.advance(1)
    assert "m" not in groups.consumer_group.members


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    groups = MixedGroups()
    static: dict[str, Any] = {"instance_id": "i", "protocols": (("range", subscription("t")),)}
    joined = groups.join(**static)
    groups.advance(1000)
    answer = joined.answer
    share = {answer.member_id: embedded.write_assignment(1, {"t": [0, 1, 2, 3]})}
    groups.sync(answer.member_id, answer.generation, share, instance_id="i")
    entered = groups.enter("new", instance_id="i").answer
    assert set(entered.assignment.popitem()[1]) == ALL
    assert list(groups.consumer_group.members) == ["new"]
    assert groups.heartbeat(answer.member_id, 1, "i") == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_goes_back_to_the_classic_protocol() -> None:
    groups = MixedGroups(group_consumer_migration_policy="disabled")
    groups.enter("new", instance_id="i")
    answer = groups.join(instance_id="i", protocols=(("range", subscription("t")),)).answer
    assert answer.error == ErrorCode.NONE
    synced = groups.sync(answer.member_id, answer.generation, instance_id="i").answer
    assert dict(embedded.read_assignment(synced.assignment).partitions) == {"t": (0, 1, 2, 3)}
    assert groups.beat("new", 1, instance_id="i").answer.code == ErrorCode.FENCED_INSTANCE_ID


def test_an_administrator_removes_a_static_member() -> None:
    groups = MixedGroups()
    groups.enter("new", instance_id="i")
    assert groups.leave(("", "i"), ("", "j")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.consumer_group.members == {}


def test_an_eager_member_is_not_disturbed_before_everything_is_free() -> None:
    groups = MixedGroups()
    new, old = NewMember(groups, "new"), OldMember(groups)
    new.beat()
    old.join()
    old.joined()
    assert old.synced() == ErrorCode.NONE
    assert groups.consumer_group.current(old.member_id).state is MemberState.UNRELEASED
    assert groups.heartbeat(old.member_id, old.generation) == ErrorCode.NONE
    new.beat()
    assert groups.heartbeat(old.member_id, old.generation) == ErrorCode.NONE
    new.beat()
    assert groups.heartbeat(old.member_id, old.generation) == ErrorCode.REBALANCE_IN_PROGRESS
    old.beat()
    assert len(old.held) == 2


# -- what members say inside of the classic protocol ---------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_subscriptions_of_all_versions(version: int) -> None:
    read = embedded.read_subscription(subscription("t", "u", version=version, owned=(("t", (1, 2)),)))
    assert (read.version, read.topics) == (version, ("t", "u"))
    assert read.owned == ((("t", (1, 2)),) if version >= 1 else ())
    assert read.rack_id == ("rack" if version >= 3 else None)


def test_half_a_subscription() -> None:
    whole = subscription("t", version=3, owned=(("t", (1, 2)),))
    for end in range(len(whole)):
        with pytest.raises(Malformed):
            embedded.read_subscription(whole[:end])
    with pytest.raises(Malformed):
        embedded.read_subscription(b"\xff\xff" + whole[2:])


def test_assignments_come_back() -> None:
    written = embedded.write_assignment(9, {"u": [3, 1], "t": []})
    assert written[:2] == b"\x00\x03", "in a version that is known"
    assert embedded.read_assignment(written) == ((("t", ()), ("u", (1, 3))), b"")
    assert embedded.read_assignment(b"") == ((), b"")
