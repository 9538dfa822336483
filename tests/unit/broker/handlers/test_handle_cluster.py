"""Elections, moves and unregistering by request: one decision for all partitions, an answer for each."""

from typing import Any
from uuid import UUID

import pytest
from fakes import ME, FakeBroker

from tidelog.controller.records import BrokerRegistered
from tidelog.errors import ErrorCode, StorageError, TidelogError

TOPIC = "t"


@pytest.fixture
def broker() -> FakeBroker:
    """Broker 1, with brokers 2 and 3 registered beside it, and a topic of two partitions."""
    made = FakeBroker()
    for other in (2, 3):
        made.submit(BrokerRegistered(other, UUID(int=other), f"h{other}", 9092, None, other))
    assignments = [
        {"partition_index": 0, "broker_ids": [ME, 2]},
        {"partition_index": 1, "broker_ids": [2, ME]},
    ]
    wish = {"name": TOPIC, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert made.call("create_topics", 7, topics=[wish]).topics[0].error_code == 0
    return made


def replicas(broker: FakeBroker) -> list[tuple[int, ...]]:
    return [each.replicas for each in broker.store.image.topics[TOPIC].partitions]


def results(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def elect(broker: FakeBroker, version: int, partitions: Any, kind: int = 0) -> Any:
    return broker.call(
        "elect_leaders", version, topic_partitions=partitions, timeout=1000, election_type=kind
    )


class TestElectLeaders:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_each_partition_has_its_own_answer(self, broker: FakeBroker, version: int) -> None:
        wanted = [{"topic": TOPIC, "partitions": [0, 7]}, {"topic": "x", "partitions": [0]}]
        assert results(elect(broker, version, wanted)) == {
            (TOPIC, 0): ErrorCode.ELECTION_NOT_NEEDED,
            (TOPIC, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    def test_all_partitions_tells_only_what_is_new(self, broker: FakeBroker) -> None:
        assert results(elect(broker, 2, None)) == {}
        assert results(elect(broker, 2, None, kind=1)) == {}

    def test_an_unknown_kind(self, broker: FakeBroker) -> None:
        assert elect(broker, 2, None, kind=9).error_code == ErrorCode.INVALID_REQUEST

    def test_nobody_decides(self, broker: FakeBroker) -> None:
        broker.store.failure = TidelogError("not here", ErrorCode.NOT_CONTROLLER)
        assert elect(broker, 2, None).error_code == ErrorCode.NOT_CONTROLLER


def reassign(broker: FakeBroker, version: int = 1, **targets: Any) -> dict[int, tuple[int, str | None]]:
    partitions = [
        {"partition_index": int(name.removeprefix("p")), "replicas": target}
        for name, target in targets.items()
    ]
    answer = broker.call(
        "alter_partition_reassignments", version, topics=[{"name": TOPIC, "partitions": partitions}]
    )
    assert answer.error_code == 0
    return {
        each.partition_index: (each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    }


class TestReassignments:
    def test_each_partition_has_its_own_answer(self, broker: FakeBroker) -> None:
        found = reassign(broker, p0=[ME, 3], p1=[9], p2=[ME])
        assert {index: code for index, (code, _) in found.items()} == {
            0: ErrorCode.NONE,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert replicas(broker) == [(ME, 3, 2), (2, ME)]

    def test_what_is_under_way_is_listed_and_can_be_stopped(self, broker: FakeBroker) -> None:
        reassign(broker, p0=[ME, 3])
        for topics in (None, [{"name": TOPIC, "partition_indexes": [0, 1]}]):
            (topic,) = broker.call("list_partition_reassignments", 0, topics=topics).topics
            (moving,) = topic.partitions
            assert (moving.partition_index, moving.replicas) == (0, (ME, 3, 2))
            assert (moving.adding_replicas, moving.removing_replicas) == ((3,), (2,))
        elsewhere = [{"name": TOPIC, "partition_indexes": [1]}]
        assert broker.call("list_partition_reassignments", 0, topics=elsewhere).topics == ()
        assert reassign(broker, p0=None)[0][0] == ErrorCode.NONE
        assert reassign(broker, p0=None)[0][0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert replicas(broker) == [(ME, 2), (2, ME)]

    def test_another_number_of_replicas_only_if_it_is_allowed(self, broker: FakeBroker) -> None:
        answer = broker.call(
            "alter_partition_reassignments",
            1,
            allow_replication_factor_change=False,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [ME]}]}],
        )
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    def test_not_below_the_minimum_that_was_asked_for(self, broker: FakeBroker) -> None:
        broker.call(
            "incremental_alter_configs",
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": TOPIC,
                    "configs": [{"name": "min.insync.replicas", "config_operation": 0, "value": "2"}],
                }
            ],
        )
        code, message = reassign(broker, p0=[ME])[0]
        assert code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "lower it first" in (message or "")

    def test_a_store_that_fails(self, broker: FakeBroker) -> None:
        broker.store.failure = StorageError("the disk is full")
        answer = broker.call(
            "alter_partition_reassignments",
            1,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [ME]}]}],
        )
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.KAFKA_STORAGE_ERROR,
            "the disk is full",
        )


class TestUnregister:
    @pytest.mark.parametrize(
        ("broker_id", "code"), [(3, ErrorCode.INVALID_REQUEST), (9, ErrorCode.BROKER_ID_NOT_REGISTERED)]
    )
    def test_refusals(self, broker: FakeBroker, broker_id: int, code: ErrorCode) -> None:
        assert broker.call("unregister_broker", 0, broker_id=broker_id).error_code == code

    def test_one_that_is_gone(self, broker: FakeBroker) -> None:
        broker.submit(BrokerRegistered(3, UUID(int=33), "h3", 9092, None, 9, fenced=True))
        assert broker.call("unregister_broker", 0, broker_id=3).error_code == 0
        assert set(broker.store.image.brokers) == {ME, 2}


def test_the_minimum_in_force_is_told(broker: FakeBroker) -> None:
    wish = {"name": "lone", "num_partitions": 1, "replication_factor": 1}
    (made,) = broker.call("create_topics", 7, topics=[wish]).topics
    assert {config.name: config.value for config in made.configs}["min.insync.replicas"] == "1"
    resource = {"resource_type": 2, "resource_name": "lone", "configuration_keys": ["min.insync.replicas"]}
    (described,) = broker.call("describe_configs", 4, resources=[resource]).results
    assert described.configs[0].value == "1"
