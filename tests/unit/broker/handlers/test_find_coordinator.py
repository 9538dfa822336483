"""FindCoordinator, and the internal topic that the first one creates."""

from uuid import UUID

import pytest

from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker, value_of
from unit.broker.handlers.group_broker import OFFSETS, group_broker


@pytest.fixture
def broker() -> FakeBroker:
    return group_broker()


class TestFindCoordinator:
    def test_the_first_one_makes_the_topic(self) -> None:
        broker = FakeBroker()
        answer = broker.call("find_coordinator", key_type=0, coordinator_keys=["g", "h"])
        for found in answer.coordinators:
            assert (found.error_code, found.node_id, found.host, found.port) == (0, ME, "localhost", 9092)
        topic = broker.store.image.topics[OFFSETS]
        assert len(topic.partitions) == 50
        assert topic.configs["cleanup.policy"] == "compact"
        assert topic.configs["min.insync.replicas"] == "1"
        assert all(len(partition.replicas) == 1 for partition in topic.partitions)

    def test_many_at_once_make_it_once(self) -> None:
        broker = FakeBroker()
        broker.store.held = True
        futures = [broker.begin("find_coordinator", 4, key_type=0, coordinator_keys=["g"]) for _ in range(5)]
        broker.store.held = False
        broker.store.commit()
        broker.services.settle()
        assert [value_of(future).coordinators[0].error_code for future in futures] == [0] * 5

    def test_with_more_brokers_there_are_more_copies(self) -> None:
        broker = FakeBroker()
        broker.submit(
            *[BrokerRegistered(number, UUID(int=number), "host", 9092 + number) for number in (2, 3, 4)]
        )
        keys = [f"group-{number}" for number in range(40)]
        answer = broker.call_within(20, "find_coordinator", key_type=0, coordinator_keys=keys)
        topic = broker.store.image.topics[OFFSETS]
        assert {len(partition.replicas) for partition in topic.partitions} == {3}
        assert topic.configs["min.insync.replicas"] == "2"
        assert {found.node_id for found in answer.coordinators} == {1, 2, 3, 4}

    @pytest.mark.parametrize("version", range(4))
    def test_one_key(self, broker: FakeBroker, version: int) -> None:
        answer = broker.call("find_coordinator", version, key="g", key_type=0)
        assert (answer.error_code, answer.node_id, answer.port) == (0, ME, 9092)

    def test_refusals(self, broker: FakeBroker) -> None:
        answer = broker.call("find_coordinator", key_type=0, coordinator_keys=["", "g" * 40_000, "g"])
        found = [each.error_code for each in answer.coordinators]
        assert found == [ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID, 0]
        (share,) = broker.call("find_coordinator", key_type=2, coordinator_keys=["g"]).coordinators
        assert (share.error_code, share.node_id) == (ErrorCode.INVALID_REQUEST, -1)

    def test_a_partition_without_a_leader(self, broker: FakeBroker) -> None:
        for index in range(3):
            broker.submit(PartitionChanged(broker.topic_id(OFFSETS), index, -1, 1, [ME], [], ME))
        (found,) = broker.call("find_coordinator", key_type=0, coordinator_keys=["g"]).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
