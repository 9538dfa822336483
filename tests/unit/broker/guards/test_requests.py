"""Requests that the access rules let pass in part, or whose handlers ask themselves."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.errors import ErrorCode
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.protocol import produce
from tidelog.security.access import all_operations
from tidelog.security.acls import Operation, PatternType, ResourceType
from unit.broker.fakes import FakeBroker, records, request_body, wanted
from unit.broker.guards.rules import ADMIN, ALICE, allow, deny, secured_broker

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def broker() -> FakeBroker:
    """Topics ``mine`` and ``other``; alice has no rules."""
    broker = secured_broker()
    broker.principal = ADMIN
    broker.create("mine")
    broker.create("other")
    broker.append("mine", b"a")
    broker.append("other", b"secret")
    broker.principal = ALICE
    return broker


def may(broker: FakeBroker, operation: Operation, name: str = "mine", kind: ResourceType = TOPIC) -> None:
    broker.allow(allow(operation, kind, name))


class TestProduce:
    @pytest.mark.parametrize("version", [3, 9, 12, 13])
    def test_each_topic_needs_write(self, broker: FakeBroker, version: int) -> None:
        may(broker, Operation.WRITE)
        sent = broker.produce(("mine", 0, records(b"x")), ("other", 0, records(b"x")), version=version)
        broker.services.settle()
        codes = [part.error_code for topic in sent[0].responses for part in topic.partition_responses]
        assert codes == [0, DENIED]
        assert broker.partition("other").log.end_offset == 1

    def test_topics_that_do_not_exist_are_not_told_from_others(self, broker: FakeBroker) -> None:
        assert broker.append("nothing", b"x").error_code == DENIED

    def test_the_fast_path_for_requests_that_look_alike(self, broker: FakeBroker) -> None:
        rule = allow(Operation.WRITE, TOPIC, "mine")
        broker.allow(rule)
        sent: list[Any] = []
        context = broker.context(0, 9)
        body = memoryview(bytearray(produce_body("mine")))
        shape = broker.producing.handle(body, 0, context, sent.append)
        assert isinstance(shape, produce.Shape)
        broker.services.settle()
        end = broker.partition("mine").log.end_offset
        batch = memoryview(bytearray(records(b"y")))
        broker.producing.handle_repeated(shape, batch, context, sent.append)
        broker.services.settle()
        assert broker.partition("mine").log.end_offset == end + 1
        broker.allow(deny(Operation.WRITE, TOPIC, "mine"))
        batch = memoryview(bytearray(records(b"z")))
        broker.producing.handle_repeated(shape, batch, context, sent.append)
        broker.services.settle()
        assert broker.partition("mine").log.end_offset == end + 1
        assert len(sent) == 3 and DENIED.to_bytes(2, "big") in bytes(sent[2])

    def test_the_fast_path_of_compacted_topics(self) -> None:
        broker = secured_broker()
        broker.principal = ADMIN
        broker.create("mine", cleanup_policy="compact")
        sent: list[Any] = []
        body = memoryview(bytearray(produce_body("mine", key=b"k")))
        shape = broker.producing.handle(body, 0, broker.context(0, 9), sent.append)
        broker.principal = ALICE
        batch = memoryview(bytearray(records(b"y", keys=[b"k"])))
        assert shape is not None
        broker.producing.handle_repeated(shape, batch, broker.context(0, 9), sent.append)
        broker.services.settle()
        assert broker.partition("mine").log.end_offset == 1
        assert DENIED.to_bytes(2, "big") in bytes(sent[-1])

    def test_a_refusal_does_not_block_the_producer_whose_id_it_names(self, broker: FakeBroker) -> None:
        assert broker.append("mine", b"x").error_code == DENIED
        assert not broker.partitions.refused.any

    def test_without_a_response_the_connection_is_closed(self, broker: FakeBroker) -> None:
        from tidelog.broker.requests.request import HangUp

        with pytest.raises(HangUp):
            broker.produce(("mine", 0, records(b"x")), acks=0)

    def test_a_transactional_id_needs_write(self, broker: FakeBroker) -> None:
        may(broker, Operation.WRITE)
        sent: list[Any] = []
        body = memoryview(bytearray(produce_body("mine", transactional_id="t")))
        broker.producing.handle(body, 0, broker.context(0, 9), sent.append)
        broker.services.settle()
        assert ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.to_bytes(2, "big") in bytes(sent[0])
        may(broker, Operation.WRITE, "t", TRANSACTIONAL_ID)
        body = memoryview(bytearray(produce_body("other", transactional_id="t")))
        broker.producing.handle(body, 0, broker.context(0, 9), sent.append)
        broker.services.settle()
        assert DENIED.to_bytes(2, "big") in bytes(sent[1])

    def test_internal_topics_stay_closed_to_those_who_may_write_everything(self, broker: FakeBroker) -> None:
        may(broker, Operation.ALL, "*")
        may(broker, Operation.ALL, "*", GROUP)
        broker.call("find_coordinator", 0, key="g")
        assert broker.append("__consumer_offsets", b"x").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def produce_body(topic: str, transactional_id: str | None = None, key: bytes | None = None) -> bytes:
    partition = {"index": 0, "records": records(b"x", keys=[key])}
    data = [{"name": topic, "partition_data": [partition]}]
    values = {"acks": -1, "timeout": 30_000, "transactional_id": transactional_id, "topic_data": data}
    return request_body(0, 9, values)


class TestFetch:
    @pytest.mark.parametrize("version", [4, 12, 13])
    def test_each_topic_needs_read(self, broker: FakeBroker, version: int) -> None:
        may(broker, Operation.READ)
        found = broker.fetch(wanted("mine", 0), wanted("other", 0), version=version)
        assert [part.error_code for part in found.partitions] == [0, DENIED]
        assert not found.partitions[1].records

    def test_describe_is_not_enough(self, broker: FakeBroker) -> None:
        may(broker, Operation.DESCRIBE)
        assert broker.fetch(wanted("mine", 0)).partition.error_code == DENIED

    def test_a_session_does_not_keep_rights(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ)
        first = broker.fetch(wanted("mine", 0), session_id=0, session_epoch=0).answer
        again = broker.fetch(session_id=first.session_id, session_epoch=1)
        broker.services.advance(600)
        assert again.answer.error_code == 0
        broker.allow(deny(Operation.READ, TOPIC, "mine"))
        later = broker.fetch(session_id=first.session_id, session_epoch=2)
        assert later.partition.error_code == DENIED

    def test_a_fetch_that_waits_does_not_keep_rights(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ)
        pending = broker.fetch(wanted("mine", 1))
        assert pending.waits
        broker.allow(deny(Operation.READ, TOPIC, "mine"))
        broker.principal = ADMIN
        broker.append("mine", b"news")
        broker.services.settle()
        assert pending.partition.error_code == DENIED


def metadata(broker: FakeBroker, *names: str | UUID, version: int = 12, **more: Any) -> dict[Any, int]:
    topics = [
        {"name": None, "topic_id": each} if isinstance(each, UUID) else {"name": each} for each in names
    ]
    answer = broker.call("metadata", version, topics=topics, **more)
    return {topic.name or topic.topic_id: topic.error_code for topic in answer.topics}


class TestMetadata:
    def test_named_topics_need_describe(self, broker: FakeBroker) -> None:
        may(broker, Operation.DESCRIBE)
        assert metadata(broker, "mine", "other") == {"mine": 0, "other": DENIED}

    def test_names_and_ids_of_others_are_not_told(self, broker: FakeBroker) -> None:
        other = broker.topic_id("other")
        answer = broker.call("metadata", 12, topics=[{"name": None, "topic_id": other}, {"name": "other"}])
        assert [(topic.name, topic.topic_id, topic.partitions) for topic in answer.topics] == [
            (None, other, ()), ("other", None, ())
        ]  # fmt: skip

    def test_all_topics_are_those_that_can_be_seen(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ)
        answer = broker.call("metadata", 12, topics=None)
        assert [topic.name for topic in answer.topics] == ["mine"]

    def test_topics_are_created_with_create_only(self, broker: FakeBroker) -> None:
        broker.allow(allow(Operation.DESCRIBE, TOPIC, "*"))
        assert metadata(broker, "new", "mine") == {"new": DENIED, "mine": 0}
        assert "new" not in broker.store.image.topics
        may(broker, Operation.CREATE, "new")
        assert metadata(broker, "new") == {"new": 0}
        broker.allow(allow(Operation.CREATE, CLUSTER))
        assert metadata(broker, "newer") == {"newer": 0}

    def test_create_alone_is_not_enough(self, broker: FakeBroker) -> None:
        broker.allow(allow(Operation.CREATE, CLUSTER))
        assert metadata(broker, "new") == {"new": DENIED}
        assert "new" not in broker.store.image.topics

    def test_internal_topics_are_made_for_anybody_who_needs_a_coordinator(self, broker: FakeBroker) -> None:
        may(broker, Operation.DESCRIBE, "g", GROUP)
        assert broker.call("find_coordinator", 0, key="g").error_code == 0
        assert "__consumer_offsets" in broker.store.image.topics

    def test_rights_are_told_to_those_who_ask(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ)
        broker.allow(allow(Operation.DESCRIBE, CLUSTER))
        answer = broker.call(
            "metadata", 10, topics=[{"name": "mine"}], include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )  # fmt: skip
        assert answer.cluster_authorized_operations == 1 << Operation.DESCRIBE
        expected = 1 << Operation.READ | 1 << Operation.DESCRIBE
        assert answer.topics[0].topic_authorized_operations == expected
        answer = broker.call("metadata", 10, topics=[{"name": "mine"}])
        assert answer.topics[0].topic_authorized_operations == -(1 << 31)


class TestAuthorizedOperations:
    def test_without_an_authorizer_everything(self) -> None:
        broker = FakeBroker()
        broker.create("mine")
        answer = broker.call("metadata", topics=[{"name": "mine"}], include_topic_authorized_operations=True)
        assert answer.topics[0].topic_authorized_operations == all_operations(TOPIC)
        answer = broker.call("describe_cluster", include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == all_operations(CLUSTER)
        answer = broker.call("describe_groups", groups=["g"], include_authorized_operations=True)
        assert answer.groups[0].authorized_operations == all_operations(GROUP)

    def test_of_groups_topics_and_the_cluster(self, broker: FakeBroker) -> None:
        may(broker, Operation.DESCRIBE, "g", GROUP)
        may(broker, Operation.WRITE)
        answer = broker.call("describe_cluster", include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == 0
        for api in ("describe_groups", "consumer_group_describe"):
            names: dict[str, Any] = {"groups" if api == "describe_groups" else "group_ids": ["g"]}
            answer = broker.call(api, **names, include_authorized_operations=True)
            assert answer.groups[0].authorized_operations == 1 << Operation.DESCRIBE
        answer = broker.call("describe_topic_partitions", topics=[], response_partition_limit=10)
        (topic,) = answer.topics
        expected = 1 << Operation.WRITE | 1 << Operation.DESCRIBE
        assert (topic.name, topic.topic_authorized_operations) == ("mine", expected)


class TestParts:
    def test_creation_of_topics(self, broker: FakeBroker) -> None:
        broker.allow(allow(Operation.CREATE, TOPIC, "a", PatternType.PREFIXED))
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a1", "b1", "a2")]
        answer = broker.call("create_topics", topics=topics)
        codes = {topic.name: (topic.error_code, topic.topic_config_error_code) for topic in answer.topics}
        assert codes == {"a1": (0, DENIED), "a2": (0, DENIED), "b1": (DENIED, 0)}
        assert {topic.name: topic.configs for topic in answer.topics}["a1"] is None
        may(broker, Operation.DESCRIBE_CONFIGS, "*")
        answer = broker.call("create_topics", topics=[{**topics[0], "name": "a3"}])
        assert answer.topics[0].topic_config_error_code == 0 and answer.topics[0].configs

    def test_deletion_of_topics(self, broker: FakeBroker) -> None:
        may(broker, Operation.DELETE)
        ids = [broker.topic_id(name) for name in ("mine", "other")]
        topics = [{"name": None, "topic_id": each} for each in ids]
        answer = broker.call("delete_topics", topics=topics)
        assert {(row.name, row.error_code) for row in answer.responses} == {("mine", 0), (None, DENIED)}
        assert set(broker.store.image.topics) == {"other"}

    def test_settings(self, broker: FakeBroker) -> None:
        may(broker, Operation.ALTER_CONFIGS)
        change = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
        kinds = [(2, "mine"), (2, "other"), (4, ""), (32, "g"), (8, "1")]
        resources = [
            {"resource_type": kind, "resource_name": name, "configs": change} for kind, name in kinds
        ]
        answer = broker.call("incremental_alter_configs", resources=resources, validate_only=False)
        codes = {(row.resource_type, row.resource_name): row.error_code for row in answer.responses}
        assert codes == {
            (2, "mine"): 0,
            (2, "other"): DENIED,
            (4, ""): ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            (8, "1"): ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            (32, "g"): ErrorCode.GROUP_AUTHORIZATION_FAILED,
        }
        shown = [{"resource_type": kind, "resource_name": name} for kind, name in kinds[:3]]
        answer = broker.call("describe_configs", resources=shown, include_synonyms=False)
        assert [row.error_code for row in answer.results] == [
            0, DENIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ]  # fmt: skip

    def test_commits_and_their_offsets(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        broker.call("find_coordinator", 0, key="g")
        may(broker, Operation.READ)
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [partition]} for name in ("mine", "other")]
        values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        answer = broker.call("offset_commit", 9, **values)
        codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        assert codes == {"mine": 0, "other": DENIED}
        groups = [
            {"group_id": "g", "topics": [{"name": n, "partition_indexes": [0]} for n in ("mine", "other")]},
            {"group_id": "h", "topics": None},
        ]
        answer = broker.call("offset_fetch", 8, groups=groups, require_stable=False)
        of_group = {group.group_id: group for group in answer.groups}
        assert of_group["h"].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        found = {topic.name: topic.partitions[0] for topic in of_group["g"].topics}
        assert (found["mine"].committed_offset, found["mine"].error_code) == (1, 0)
        assert (found["other"].committed_offset, found["other"].error_code) == (-1, DENIED)

    def test_all_offsets_are_those_of_topics_that_can_be_seen(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        may(broker, Operation.READ, "*")
        broker.call("find_coordinator", 0, key="g")
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [partition]} for name in ("mine", "other")]
        values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        broker.call("offset_commit", 9, **values)
        broker.allow(deny(Operation.DESCRIBE, TOPIC, "other"))
        groups = [{"group_id": "g", "topics": None}]
        answer = broker.call("offset_fetch", 8, groups=groups, require_stable=False)
        assert [topic.name for topic in answer.groups[0].topics] == ["mine"]
        answer = broker.call("offset_fetch", 7, group_id="g", topics=None, require_stable=False)
        assert [topic.name for topic in answer.topics] == ["mine"]

    def test_lists_of_groups(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "*", GROUP)
        broker.call("find_coordinator", 0, key="g")
        for group in ("g", "h"):
            join(broker, group)
        assert listed(broker) == {"g", "h"}
        broker.allow(deny(Operation.DESCRIBE, GROUP, "h"))
        assert listed(broker) == {"g"}
        broker.allow(allow(Operation.DESCRIBE, CLUSTER))
        assert listed(broker) == {"g", "h"}

    def test_coordinators_of_several_groups(self, broker: FakeBroker) -> None:
        may(broker, Operation.DESCRIBE, "g", GROUP)
        answer = broker.call("find_coordinator", 4, key_type=0, coordinator_keys=["g", "h"])
        codes = {each.key: each.error_code for each in answer.coordinators}
        assert codes == {"g": 0, "h": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        answer = broker.call("find_coordinator", 4, key_type=1, coordinator_keys=["t"])
        assert [each.error_code for each in answer.coordinators] == [
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        ]

    def test_producer_ids(self, broker: FakeBroker) -> None:
        values = {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
        denied = broker.call("init_producer_id", transactional_id=None, **values)
        assert denied.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        may(broker, Operation.WRITE)
        assert broker.call("init_producer_id", transactional_id=None, **values).error_code == 0


def join(broker: FakeBroker, group: str) -> None:
    broker.begin(
        "join_group", 3, group_id=group, session_timeout=10_000, rebalance_timeout=10_000, member_id="",
        protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip
    broker.services.settle()


def listed(broker: FakeBroker) -> set[str]:
    return {group.group_id for group in broker.call("list_groups", states_filter=[]).groups}


class TestRegularExpressions:
    def heartbeat(self, broker: FakeBroker, **more: Any) -> Any:
        return broker.call(
            "consumer_group_heartbeat", 1, group_id="g", rebalance_timeout=60_000,
            **{"member_id": "m", "member_epoch": 0, "topic_partitions": [], **more},
        )  # fmt: skip

    def matched(self, broker: FakeBroker) -> set[str]:
        machine = broker.broker.coordinators.groups.machine_of("g")
        group = machine.groups.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return set(group.regexes[".*"].topics)

    def test_match_topics_that_can_be_seen(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        may(broker, Operation.DESCRIBE)
        broker.call("find_coordinator", 0, key="g")
        answer = self.heartbeat(broker, subscribed_topic_regex=".*")
        assert answer.error_code == 0
        assert self.matched(broker) == {"mine"}
        # A new rule: the expression is matched again.
        may(broker, Operation.READ, "other")
        answer = self.heartbeat(broker, member_epoch=answer.member_epoch, topic_partitions=None)
        assert self.matched(broker) == {"mine", "other"}
        broker.allow(deny(Operation.DESCRIBE, TOPIC, "mine"))
        self.heartbeat(broker, member_epoch=answer.member_epoch, topic_partitions=None)
        assert self.matched(broker) == {"other"}

    def test_new_topics_that_cannot_be_seen_do_not_match(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        may(broker, Operation.DESCRIBE)
        broker.call("find_coordinator", 0, key="g")
        answer = self.heartbeat(broker, subscribed_topic_regex=".*")
        broker.principal = ADMIN
        broker.create("third")
        broker.principal = ALICE
        self.heartbeat(broker, member_epoch=answer.member_epoch, topic_partitions=None)
        assert self.matched(broker) == {"mine"}

    def test_names_need_describe(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        may(broker, Operation.DESCRIBE)
        broker.call("find_coordinator", 0, key="g")
        answer = self.heartbeat(broker, subscribed_topic_names=["mine", "other"])
        assert answer.error_code == DENIED

    def test_a_group_is_described_with_all_of_its_topics(self, broker: FakeBroker) -> None:
        may(broker, Operation.READ, "g", GROUP)
        may(broker, Operation.DESCRIBE, "*")
        broker.call("find_coordinator", 0, key="g")
        self.heartbeat(broker, subscribed_topic_names=["other"])
        assert broker.call("consumer_group_describe", group_ids=["g"]).groups[0].error_code == 0
        broker.allow(deny(Operation.DESCRIBE, TOPIC, "other"))
        (group,) = broker.call("consumer_group_describe", group_ids=["g"]).groups
        assert (group.error_code, group.members) == (DENIED, ())


class TestAuditLog:
    def test_refusals_are_told_once_a_minute(self, broker: FakeBroker) -> None:
        for _ in range(3):
            broker.append("mine", b"x")
        (line,) = broker.audited
        assert line["event"] == "refused"
        assert (line["principal"], line["host"]) == ("User:alice", "10.0.0.1")
        assert (line["api"], line["operation"], line["resource"]) == ("produce", "WRITE", "mine")
        broker.services.advance(61_000)
        broker.append("mine", b"x")
        assert [line["event"] for line in broker.audited] == ["refused", "more-refused", "refused"]
        assert broker.audited[1]["count"] == 2

    def test_names_that_are_only_listed_are_no_refusals(self, broker: FakeBroker) -> None:
        broker.call("metadata", 12, topics=None)
        broker.call("list_groups", states_filter=[])
        assert broker.audited == []
