"""Requests to the group coordinator as clients send them, in every version that differs."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.future import Future
from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker, value_of
from unit.broker.handlers.group_broker import OFFSETS, commit, group_broker


@pytest.fixture
def broker() -> FakeBroker:
    return group_broker()


def join(broker: FakeBroker, member_id: str = "", version: int = 3, **more: Any) -> Future[Any]:
    return broker.begin(
        "join_group", version, **{
            "group_id": "g", "session_timeout": 10_000, "rebalance_timeout": 60_000, "member_id": member_id,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"meta"}], **more,
        }
    )  # fmt: skip


def joined(broker: FakeBroker, version: int = 3, **more: Any) -> Any:
    """A lone new member's answer."""
    future = join(broker, version=version, **more)
    broker.services.settle()
    if not future.is_complete:
        broker.services.advance(1000)
    return value_of(future)


def sync(broker: FakeBroker, answer: Any, version: int = 5, **more: Any) -> Any:
    assignments = [{"member_id": answer.member_id, "assignment": b"all"}]
    return broker.call(
        "sync_group", version, **{
            "group_id": "g", "generation_id": answer.generation_id, "member_id": answer.member_id,
            "protocol_type": "consumer", "protocol_name": "range", "assignments": assignments, **more,
        }
    )  # fmt: skip


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


class TestMembers:
    @pytest.mark.parametrize("version", range(10))
    def test_join_in_every_version(self, broker: FakeBroker, version: int) -> None:
        answer = joined(broker, version)
        if version >= 4:
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            answer = joined(broker, version, member_id=answer.member_id)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
        assert answer.leader == answer.member_id
        assert answer.member_id.startswith("test-")
        assert [member.metadata for member in answer.members] == [b"meta"]
        if version >= 7:
            assert answer.protocol_type == "consumer"

    def test_static_members_are_named_after_their_instance(self, broker: FakeBroker) -> None:
        assert joined(broker, 9, group_instance_id="i").member_id.startswith("i-")

    def test_a_refusal_names_the_member(self, broker: FakeBroker) -> None:
        for version, protocol in ((6, ""), (7, None)):
            answer = joined(broker, version, member_id="stranger")
            assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
            assert (answer.protocol_name, answer.generation_id) == (protocol, -1)
        assert joined(broker, group_id="").error_code == ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize("version", range(6))
    def test_sync_heartbeat_and_leave(self, broker: FakeBroker, version: int) -> None:
        answer = joined(broker)
        synced = sync(broker, answer, version)
        assert (synced.error_code, synced.assignment) == (0, b"all")
        who = {"group_id": "g", "generation_id": 1, "member_id": answer.member_id}
        assert broker.call("heartbeat", min(version, 4), **who).error_code == 0
        who["generation_id"] = 2
        refused = broker.call("heartbeat", min(version, 4), **who).error_code
        assert refused == ErrorCode.ILLEGAL_GENERATION
        left = broker.call(
            "leave_group",
            version,
            group_id="g",
            member_id=answer.member_id,
            members=[{"member_id": answer.member_id}, {"member_id": "stranger"}],
        )
        assert left.error_code == 0
        if version >= 3:
            assert [each.error_code for each in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
        again = broker.call("leave_group", 0, group_id="g", member_id=answer.member_id)
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_while_the_coordinator_loads(self, broker: FakeBroker) -> None:
        answer = joined(broker)
        sync(broker, answer)
        for index in range(3):
            broker.submit(PartitionChanged(broker.topic_id(OFFSETS), index, ME, 1, [ME], [], ME))
        who = {"group_id": "g", "generation_id": 1, "member_id": answer.member_id}
        # Not settled: the shards are still empty.
        assert value_of(join(broker, answer.member_id)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert value_of(broker.begin("heartbeat", **who)).error_code == ErrorCode.NONE
        syncing = broker.begin("sync_group", **who, protocol_type="", protocol_name="", assignments=[])
        assert value_of(syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert value_of(broker.begin("list_groups")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.services.settle()
        assert broker.call("heartbeat", **who).error_code == ErrorCode.NONE
        assert sync(broker, answer).assignment == b"all"

    def test_elsewhere(self, broker: FakeBroker) -> None:
        waiting = join(broker)
        broker.submit(BrokerRegistered(2, UUID(int=2), "other", 9093))
        for index in range(3):
            changed = PartitionChanged(broker.topic_id(OFFSETS), index, 2, 1, [2], [], 2, False, [ME, 2])
            broker.submit(changed)
        assert value_of(waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert joined(broker).error_code == ErrorCode.NOT_COORDINATOR
        answer = broker.call_within(20, "find_coordinator", key_type=0, coordinator_keys=["g"])
        (found,) = answer.coordinators
        assert (found.node_id, found.host, found.port) == (2, "other", 9093)


class TestOffsets:
    @pytest.mark.parametrize("version", range(2, 10))
    def test_commit_in_every_version(self, broker: FakeBroker, version: int) -> None:
        assert codes(commit(broker, version)) == [0]
        answer = broker.call("offset_fetch", 5, group_id="g", topics=None)
        partition = answer.topics[0].partitions[0]
        assert (partition.committed_offset, partition.metadata) == (5, "m")
        assert partition.committed_leader_epoch == (2 if version >= 6 else -1)

    def test_topics_nobody_knows(self, broker: FakeBroker) -> None:
        partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
        topics = [{"name": name, "partitions": [partition]} for name in ("none", "t")]
        answer = commit(broker, topics=topics)
        assert [topic.name for topic in answer.topics] == ["none", "t"]
        assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert codes(commit(broker, topics=topics[:1])) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def test_topics_by_id(self, broker: FakeBroker) -> None:
        partition = {"partition_index": 1, "committed_offset": 5, "committed_metadata": None}
        mine, unknown = broker.topic_id("t"), UUID(int=0xDEAD)
        topics = [{"topic_id": topic_id, "partitions": [partition]} for topic_id in (unknown, mine)]
        answer = commit(broker, 10, topics)
        assert [topic.topic_id for topic in answer.topics] == [unknown, mine]
        assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_ID, 0]
        wanted = [{"topic_id": topic_id, "partition_indexes": [1]} for topic_id in (mine, unknown)]
        for topics_wanted in (wanted, None):
            fetched = broker.call("offset_fetch", 10, groups=[{"group_id": "g", "topics": topics_wanted}])
            first = fetched.groups[0].topics[0]
            assert (first.topic_id, first.partitions[0].committed_offset) == (mine, 5)
        other = broker.call("offset_fetch", 10, groups=[{"group_id": "g", "topics": wanted}])
        missing = other.groups[0].topics[1].partitions[0]
        assert (missing.error_code, missing.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)

    def test_one_refusal_for_all(self, broker: FakeBroker) -> None:
        member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 3}
        assert codes(commit(broker, 8, **member)) == [ErrorCode.ILLEGAL_GENERATION]
        assert codes(commit(broker, 9, **member)) == [ErrorCode.GROUP_ID_NOT_FOUND]

    @pytest.mark.parametrize("version", range(1, 8))
    def test_fetch_of_one_group(self, broker: FakeBroker, version: int) -> None:
        commit(broker)
        wanted = [{"name": "t", "partition_indexes": [0, 1]}, {"name": "none", "partition_indexes": [0]}]
        answer = broker.call("offset_fetch", version, group_id="g", topics=wanted)
        found = [
            (topic.name, each.partition_index, each.committed_offset, each.metadata)
            for topic in answer.topics
            for each in topic.partitions
        ]
        assert found == [("t", 0, 5, "m"), ("t", 1, -1, ""), ("none", 0, -1, "")]
        if version >= 2:
            everything = broker.call("offset_fetch", version, group_id="g", topics=None)
            assert [(t.name, len(t.partitions)) for t in everything.topics] == [("t", 1)]
            assert everything.error_code == 0

    @pytest.mark.parametrize("version", [8, 9])
    def test_fetch_of_several_groups(self, broker: FakeBroker, version: int) -> None:
        commit(broker)
        groups = [{"group_id": name, "topics": None} for name in ("g", "none")]
        answer = broker.call("offset_fetch", version, groups=groups, require_stable=True)
        assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
            ("g", 0, 1),
            ("none", 0, 0),
        ]

    def test_fetch_elsewhere(self, broker: FakeBroker) -> None:
        for index in range(3):
            changed = PartitionChanged(broker.topic_id(OFFSETS), index, 2, 1, [2], [], 2, False, [ME, 2])
            broker.submit(changed)
        wanted = [{"name": "t", "partition_indexes": [0]}]
        oldest = broker.call("offset_fetch", 1, group_id="g", topics=wanted)
        assert codes(oldest) == [ErrorCode.NOT_COORDINATOR]
        older = broker.call("offset_fetch", 7, group_id="g", topics=wanted)
        assert (older.error_code, older.topics) == (ErrorCode.NOT_COORDINATOR, ())
        newer = broker.call("offset_fetch", 9, groups=[{"group_id": "g", "topics": None}])
        assert newer.groups[0].error_code == ErrorCode.NOT_COORDINATOR

    def test_delete(self, broker: FakeBroker) -> None:
        commit(broker)
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in (0, 1)]}
            for name in ("none", "t")
        ]
        answer = broker.call("offset_delete", group_id="g", topics=topics)
        assert (answer.error_code, codes(answer)) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2 + [0, 0])
        assert broker.call("offset_fetch", 5, group_id="g", topics=None).topics == ()
        missing = broker.call("offset_delete", group_id="none", topics=topics)
        assert (missing.error_code, missing.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())

    def test_a_deleted_topic_takes_its_offsets_along(self, broker: FakeBroker) -> None:
        commit(broker)
        broker.call("delete_topics", topics=[{"name": "t", "topic_id": None}])
        broker.create("t", 2)
        assert broker.call("offset_fetch", 5, group_id="g", topics=None).topics == ()

    def test_they_expire(self, broker: FakeBroker) -> None:
        commit(broker)
        broker.services.advance(8 * 24 * 3_600_000)
        assert broker.call("offset_fetch", 5, group_id="g", topics=None).topics == ()
        assert broker.call("list_groups").groups == ()


class TestAdministration:
    def test_list(self, broker: FakeBroker) -> None:
        sync(broker, joined(broker))
        commit(broker, group_id="simple")
        everything = broker.call("list_groups")
        found = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in everything.groups}
        assert found == {("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")}
        stable = broker.call("list_groups", 5, states_filter=["STABLE"], types_filter=["Classic"])
        assert [group.group_id for group in stable.groups] == ["g"]
        assert broker.call("list_groups", 5, types_filter=["consumer"]).groups == ()
        assert len(broker.call("list_groups", 0).groups) == 2

    def test_describe(self, broker: FakeBroker) -> None:
        answer = joined(broker, group_instance_id=None)
        sync(broker, answer)
        (found,) = broker.call("describe_groups", groups=["g"]).groups
        assert (found.group_state, found.protocol_type, found.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (member,) = found.members
        assert (member.member_id, member.client_id) == (answer.member_id, "test")
        assert (member.member_metadata, member.member_assignment) == (b"meta", b"all")

    def test_describe_what_does_not_exist(self, broker: FakeBroker) -> None:
        (old,) = broker.call("describe_groups", 5, groups=["none"]).groups
        assert (old.error_code, old.group_state) == (0, "Dead")
        (new,) = broker.call("describe_groups", 6, groups=["none"]).groups
        assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert "none" in new.error_message

    def test_delete(self, broker: FakeBroker) -> None:
        sync(broker, joined(broker))
        commit(broker, group_id="simple")
        answer = broker.call("delete_groups", groups_names=["g", "simple", "none", ""])
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("simple", 0),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_GROUP_ID),
        ]
        assert [group.group_id for group in broker.call("list_groups").groups] == ["g"]

    def test_the_offsets_topic_shows_it_all_to_kafkas_tools(self, broker: FakeBroker) -> None:
        """The records, as any consumer of the internal topic reads them."""
        commit(broker)
        index = broker.broker.coordinators.groups.partition_of("g")
        assert index is not None
        log = broker.partition(OFFSETS, index).log
        data = log.read(0, 1 << 20, log.end_offset, at_least_one_batch=True).read()
        assert b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00" in data
