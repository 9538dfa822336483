"""Responses name the listener that a client came in by, wherever they name the address of a broker."""

from uuid import UUID

import pytest

from tidelog.controller.endpoints import Endpoint
from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker, records, wanted

OTHER, THIRD = 2, 3
LISTENERS = ["INSIDE", "OUTSIDE"]


def endpoints(broker: int, *names: str) -> list[Endpoint]:
    return [Endpoint(name, f"{name.lower()}-{broker}", 9000 + broker) for name in names]


@pytest.fixture(params=LISTENERS)
def broker(request: pytest.FixtureRequest) -> FakeBroker:
    made = FakeBroker(min_insync_replicas=1)
    made.submit(
        BrokerRegistered(ME, UUID(int=1), "peers-1", 1, endpoints=endpoints(ME, *LISTENERS)),
        BrokerRegistered(OTHER, UUID(int=2), "peers-2", 1, endpoints=endpoints(OTHER, *LISTENERS)),
        BrokerRegistered(THIRD, UUID(int=3), "peers-3", 1, endpoints=endpoints(THIRD, "ELSEWHERE")),
    )
    made.listener = request.param
    return made


def expected(broker: FakeBroker) -> list[tuple[int, str, int]]:
    return [(each, f"{broker.listener.lower()}-{each}", 9000 + each) for each in (ME, OTHER)]


def test_metadata(broker: FakeBroker) -> None:
    answer = broker.call_within(20, "metadata", topics=[])
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == expected(broker)


def test_describe_cluster(broker: FakeBroker) -> None:
    answer = broker.call("describe_cluster", endpoint_type=1)
    assert [(node.broker_id, node.host, node.port) for node in answer.brokers] == expected(broker)


def test_find_coordinator(broker: FakeBroker) -> None:
    keys = [f"group-{number}" for number in range(40)]
    answer = broker.call_within(20, "find_coordinator", key_type=0, coordinator_keys=keys)
    found = {(each.node_id, each.host, each.port) for each in answer.coordinators if not each.error_code}
    assert found == set(expected(broker))
    # The third broker has no address that this client could use.
    refused = {each.error_code for each in answer.coordinators} - {0}
    assert refused == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize("leader", [OTHER, THIRD])
def test_error_responses(broker: FakeBroker, leader: int) -> None:
    broker.create("orders")
    change = PartitionChanged(
        broker.topic_id("orders"), 0, leader, 4, [leader], [], leader, False, [ME, leader]
    )
    broker.submit(change)
    broker.services.settle()
    where = [expected(broker)[1]] if leader == OTHER else []
    (answer,) = broker.produce(("orders", 0, records(b"x")))
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == where
    fetching = broker.fetch(wanted("orders", 0, current_leader_epoch=2), version=16)
    broker.services.settle()
    assert [(node.node_id, node.host, node.port) for node in fetching.answer.node_endpoints] == where
