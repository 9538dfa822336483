"""AlterPartitionReassignments and ListPartitionReassignments: one decision for all partitions, an answer
for each.
"""

from typing import Any

import pytest

from tidelog.errors import ErrorCode, StorageError
from unit.broker.fakes import ME, FakeBroker
from unit.broker.handlers.three_brokers import TOPIC, replicas, three_brokers


@pytest.fixture
def broker() -> FakeBroker:
    return three_brokers()


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
