"""Creating, growing and deleting topics, and every request about topics that must be refused."""

import uuid
from collections.abc import Iterator
from typing import Any

import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .clients import CLIENTS, Client, Message
from .records import batch, values
from .wire import Wire

pytestmark = pytest.mark.interop

BAD_NAMES = ["", ".", "..", "a" * 250, "with space", "sla/sh", "ünicode", "line\nbreak", "nul\0", "a:b", "*"]


@pytest.fixture
def name() -> str:
    """A topic name nobody used before."""
    return f"n-{uuid.uuid4().hex[:12]}"


def create(wire: Wire, *topics: dict[str, Any], validate_only: bool = False, version: int = 7) -> list[Any]:
    wanted = [{"num_partitions": 1, "replication_factor": 1, **topic} for topic in topics]
    answer = wire.call("create_topics", version, topics=wanted, timeout=30_000, validate_only=validate_only)
    return list(answer.topics)


def exists(wire: Wire, name: str) -> bool:
    code = calls.metadata(wire, name).error_code
    return code in (ErrorCode.none, ErrorCode.leader_not_available)


class TestCreate:
    def test_the_answer_describes_the_new_topic(self, wire: Wire, name: str) -> None:
        configs = [{"name": "retention.ms", "value": "12345"}]
        (created,) = create(wire, {"name": name, "num_partitions": 3, "configs": configs})
        assert created.error_code is ErrorCode.none
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        calls.await_topic(wire, name, 3)
        assert created.topic_id == calls.topic_id(wire, name)
        described = {config.name: config.value for config in created.configs}
        assert described["retention.ms"] == "12345"
        assert described["cleanup.policy"] == "delete"

    def test_defaults_stand_in_for_minus_one(self, wire: Wire, name: str) -> None:
        (created,) = create(wire, {"name": name, "num_partitions": -1, "replication_factor": -1})
        assert created.error_code is ErrorCode.none
        assert (created.num_partitions, created.replication_factor) == (1, 1)

    def test_validate_only_creates_nothing(self, wire: Wire, name: str) -> None:
        (checked,) = create(wire, {"name": name, "num_partitions": 2}, validate_only=True)
        assert checked.error_code is ErrorCode.none
        assert not exists(wire, name)

    def test_validate_only_finds_what_is_wrong(self, wire: Wire, topic: str) -> None:
        (checked,) = create(wire, {"name": topic}, validate_only=True)
        assert checked.error_code is ErrorCode.topic_already_exists

    def test_manual_assignment(self, wire: Wire, name: str, bootstrap: str) -> None:
        (broker,) = {each.node_id for each in wire.call("metadata", 12, topics=[]).brokers[:1]}
        assignments = [{"partition_index": n, "broker_ids": [broker]} for n in range(3)]
        wanted = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        (created,) = create(wire, wanted)
        assert created.error_code is ErrorCode.none
        calls.await_topic(wire, name, 3)
        replicas = {
            part.partition_index: part.replica_nodes for part in calls.metadata(wire, name).partitions
        }
        assert replicas == dict.fromkeys(range(3), (broker,))

    def test_one_refusal_does_not_stop_the_others(self, wire: Wire, topic: str, name: str) -> None:
        results = create(wire, {"name": topic}, {"name": name})
        codes = {result.name: result.error_code for result in results}
        assert codes == {topic: ErrorCode.topic_already_exists, name: ErrorCode.none}

    def test_the_longest_name(self, wire: Wire, name: str) -> None:
        longest = name + "x" * (249 - len(name))
        (created,) = create(wire, {"name": longest})
        assert created.error_code is ErrorCode.none
        calls.await_topic(wire, longest)
        calls.produce(wire, longest, bytes(batch(b"v")))
        assert values(calls.fetch(wire, longest, 0).records) == [b"v"]
        for _ in range(2):
            (deleted,) = wire.call("delete_topics", 5, topic_names=[longest], timeout=30_000).responses
            assert deleted.error_code is ErrorCode.none
            (created,) = create(wire, {"name": longest})
            assert created.error_code is ErrorCode.none
            calls.await_topic(wire, longest)
        assert calls.fetch(wire, longest, 0).records in (None, b"")


class TestCreateRefused:
    @pytest.mark.parametrize(
        "bad",
        ["", ".", "..", "a" * 250, "with space", "slash/es", "ünicode", "line\nbreak", "nul\0", "a:b", "*"],
    )
    def test_bad_name(self, wire: Wire, bad: str) -> None:
        (refused,) = create(wire, {"name": bad})
        assert refused.error_code is ErrorCode.invalid_topic_exception
        assert refused.error_message

    def test_existing_name(self, wire: Wire, topic: str) -> None:
        (refused,) = create(wire, {"name": topic})
        assert refused.error_code is ErrorCode.topic_already_exists

    def test_name_that_collides_in_metrics(self, wire: Wire, name: str) -> None:
        """Kafka keeps ``a.b`` and ``a_b`` apart nowhere but in its metrics' names, and so allows only one."""
        create(wire, {"name": name + ".x"})
        (refused,) = create(wire, {"name": name + "_x"})
        assert refused.error_code is ErrorCode.invalid_topic_exception

    def test_the_same_name_twice_in_one_request(self, wire: Wire, name: str) -> None:
        results = create(wire, {"name": name}, {"name": name})
        assert {result.error_code for result in results} == {ErrorCode.invalid_request}
        assert not exists(wire, name)

    @pytest.mark.parametrize("partitions", [0, -2, -100])
    def test_bad_number_of_partitions(self, wire: Wire, name: str, partitions: int) -> None:
        (refused,) = create(wire, {"name": name, "num_partitions": partitions})
        assert refused.error_code is ErrorCode.invalid_partitions

    @pytest.mark.parametrize("replicas", [0, -2, 32_000])
    def test_bad_replication_factor(self, wire: Wire, name: str, replicas: int) -> None:
        (refused,) = create(wire, {"name": name, "replication_factor": replicas})
        assert refused.error_code is ErrorCode.invalid_replication_factor

    @pytest.mark.parametrize(
        "assignments",
        [
            [{"partition_index": 0, "broker_ids": [99]}],
            [{"partition_index": 0, "broker_ids": []}],
            [{"partition_index": 0, "broker_ids": [1, 1]}],
            [{"partition_index": 1, "broker_ids": [1]}],
            [{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 0, "broker_ids": [1]}],
        ],
        ids=["unknown broker", "no broker", "broker twice", "gap", "partition twice"],
    )
    def test_bad_assignment(self, wire: Wire, name: str, assignments: list[dict[str, Any]]) -> None:
        wanted = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
        (refused,) = create(wire, wanted)
        assert refused.error_code is ErrorCode.invalid_replica_assignment

    def test_assignment_together_with_numbers(self, wire: Wire, name: str) -> None:
        assignments = [{"partition_index": 0, "broker_ids": [1]}]
        (refused,) = create(wire, {"name": name, "num_partitions": 3, "assignments": assignments})
        assert refused.error_code is ErrorCode.invalid_request

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("no.such.setting", "1"),
            ("retention.ms", "soon"),
            ("retention.ms", None),
            ("cleanup.policy", "shred"),
            ("max.message.bytes", "-1"),
            ("compression.type", "rar"),
            ("message.timestamp.type", "Sometimes"),
            ("min.cleanable.dirty.ratio", "1.5"),
        ],
    )
    def test_bad_config(self, wire: Wire, name: str, key: str, value: str | None) -> None:
        (refused,) = create(wire, {"name": name, "configs": [{"name": key, "value": value}]})
        assert refused.error_code is ErrorCode.invalid_config
        assert key in refused.error_message
        assert not exists(wire, name)


class TestDelete:
    def test_by_name(self, wire: Wire, topic: str) -> None:
        (deleted,) = wire.call("delete_topics", 5, topic_names=[topic], timeout=30_000).responses
        assert deleted.error_code is ErrorCode.none
        calls.await_deletion(wire, topic)

    def test_by_id(self, wire: Wire, topic: str) -> None:
        topics = [{"name": None, "topic_id": calls.topic_id(wire, topic)}]
        (deleted,) = wire.call("delete_topics", 6, topics=topics, timeout=30_000).responses
        assert deleted.error_code is ErrorCode.none
        assert deleted.name == topic
        calls.await_deletion(wire, topic)

    def test_unknown(self, wire: Wire) -> None:
        by_name = {"name": "no-such-topic"}
        by_id = {"name": None, "topic_id": uuid.uuid4()}
        (first,) = wire.call("delete_topics", 6, topics=[by_name], timeout=30_000).responses
        (second,) = wire.call("delete_topics", 6, topics=[by_id], timeout=30_000).responses
        assert first.error_code is ErrorCode.unknown_topic_or_partition
        assert second.error_code is ErrorCode.unknown_topic_id

    def test_the_name_is_free_again_and_the_data_gone(self, wire: Wire, topic: str) -> None:
        first_id = calls.topic_id(wire, topic)
        calls.produce(wire, topic, bytes(batch(b"old")))
        wire.call("delete_topics", 5, topic_names=[topic], timeout=30_000)
        calls.await_deletion(wire, topic)
        calls.create_topic(wire, topic)
        assert calls.topic_id(wire, topic) != first_id
        assert calls.end_offset(wire, topic) == 0
        calls.produce(wire, topic, bytes(batch(b"new")))
        assert values(calls.fetch(wire, topic, 0).records) == [b"new"]

    @pytest.mark.tidelog_settings({"delete.topic.enable": False})
    def test_where_deleting_is_switched_off(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "kept")
            (refused,) = wire.call("delete_topics", 6, topics=[{"name": "kept"}], timeout=30_000).responses
            assert refused.error_code is ErrorCode.topic_deletion_disabled
            assert exists(wire, "kept")


class TestCreatePartitions:
    def grow(self, wire: Wire, topic: str, count: int, validate_only: bool = False, **more: Any) -> Any:
        wanted = {"name": topic, "count": count, "assignments": None, **more}
        answer = wire.call(
            "create_partitions", 3, topics=[wanted], timeout=30_000, validate_only=validate_only
        )
        return answer.results[0]

    def test_new_partitions_can_be_used(self, wire: Wire, topic: str) -> None:
        calls.produce(wire, topic, bytes(batch(b"before")))
        assert self.grow(wire, topic, 3).error_code is ErrorCode.none
        calls.await_topic(wire, topic, 3)
        calls.produce(wire, topic, bytes(batch(b"in the new one")), partition=2)
        assert values(calls.fetch(wire, topic, 0, partition=2).records) == [b"in the new one"]
        assert values(calls.fetch(wire, topic, 0).records) == [b"before"]

    def test_validate_only(self, wire: Wire, topic: str) -> None:
        assert self.grow(wire, topic, 3, validate_only=True).error_code is ErrorCode.none
        assert len(calls.metadata(wire, topic).partitions) == 1

    @pytest.mark.parametrize("count", [1, 0, -1])
    def test_not_more_than_now(self, wire: Wire, topic: str, count: int) -> None:
        assert self.grow(wire, topic, count).error_code is ErrorCode.invalid_partitions

    def test_unknown_topic(self, wire: Wire) -> None:
        assert self.grow(wire, "no-such-topic", 3).error_code is ErrorCode.unknown_topic_or_partition

    def test_manual_assignment(self, wire: Wire, topic: str) -> None:
        broker = wire.call("metadata", 12, topics=[]).brokers[0].node_id
        wanted = [{"broker_ids": [broker]}, {"broker_ids": [broker]}]
        assert self.grow(wire, topic, 3, assignments=wanted).error_code is ErrorCode.none
        calls.await_topic(wire, topic, 3)
        parts = calls.metadata(wire, topic).partitions
        assert {part.partition_index: part.replica_nodes for part in parts if part.partition_index} == {
            1: (broker,), 2: (broker,)
        }  # fmt: skip
        calls.produce(wire, topic, bytes(batch(b"x")), partition=2)

    def test_bad_assignment(self, wire: Wire, topic: str) -> None:
        refused = self.grow(wire, topic, 2, assignments=[{"broker_ids": [99]}])
        assert refused.error_code is ErrorCode.invalid_replica_assignment
        refused = self.grow(wire, topic, 3, assignments=[{"broker_ids": [1]}])
        assert refused.error_code is ErrorCode.invalid_replica_assignment


@pytest.fixture
def confluent_admin(bootstrap: str) -> Iterator[AdminClient]:
    yield AdminClient({"bootstrap.servers": bootstrap})


def test_confluent_admin(confluent_admin: AdminClient, wire: Wire, name: str) -> None:
    new = NewTopic(name, num_partitions=2, replication_factor=1, config={"retention.ms": "1000000"})
    confluent_admin.create_topics([new])[name].result(30)
    calls.await_topic(wire, name, 2)
    confluent_admin.create_partitions([NewPartitions(name, 4)])[name].result(30)
    calls.await_topic(wire, name, 4)
    assert set(confluent_admin.list_topics(name, timeout=30).topics[name].partitions) == {0, 1, 2, 3}
    confluent_admin.delete_topics([name])[name].result(30)
    calls.await_deletion(wire, name)


def test_kafka_python_admin(bootstrap: str, wire: Wire, name: str) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([kafka.admin.NewTopic(name, num_partitions=2, replication_factor=1)])
        calls.await_topic(wire, name, 2)
        assert name in admin.list_topics()
        admin.delete_topics([name])
        calls.await_deletion(wire, name)
    finally:
        admin.close()


class TestAutoCreate:
    @pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
    def test_writing_to_a_new_topic_creates_it(self, client: Client, bootstrap: str, name: str) -> None:
        assert client.produce(bootstrap, name, [Message(None, b"first")]) == [0]
        assert [record.value for record in client.consume(bootstrap, name, 1)] == [b"first"]

    def test_only_if_the_request_allows_it(self, wire: Wire, name: str) -> None:
        answer = wire.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
        assert not exists(wire, name)

    def test_a_bad_name_is_never_created(self, wire: Wire) -> None:
        answer = wire.call("metadata", 12, topics=[{"name": "not a name"}], allow_auto_topic_creation=True)
        assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception

    @pytest.mark.tidelog_settings({"num.partitions": 4})
    def test_the_broker_says_how_many_partitions(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            wire.call("metadata", 12, topics=[{"name": "made"}], allow_auto_topic_creation=True)
            calls.await_topic(wire, "made", 4)
            assert len(calls.metadata(wire, "made").partitions) == 4

    @pytest.mark.tidelog_settings({"auto.create.topics.enable": False})
    def test_where_it_is_switched_off(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            answer = wire.call("metadata", 12, topics=[{"name": "made"}], allow_auto_topic_creation=True)
            assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
            assert not exists(wire, "made")


@pytest.mark.not_kafka
@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_refuse_to_grow(wire: Wire, name: str) -> None:
    """Their groups and transactional ids would be looked for in other partitions."""
    kind = {"__consumer_offsets": 0, "__transaction_state": 1}[name]

    def founded() -> bool:
        found = wire.call("find_coordinator", 3, key="any", key_type=kind)
        return found.error_code is ErrorCode.none

    calls.eventually(founded, f"{name} is there")
    before = len(calls.metadata(wire, name).partitions)
    grown = [{"name": name, "count": before + 1, "assignments": None}]
    (refused,) = wire.call("create_partitions", 3, topics=grown, timeout=10_000).results
    assert refused.error_code is ErrorCode.invalid_partitions
    assert "would be lost" in refused.error_message
    assert len(calls.metadata(wire, name).partitions) == before
