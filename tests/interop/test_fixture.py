"""The public pytest fixtures, used as docs/testing.md shows them."""

import pytest
from confluent_kafka import Producer

from tidelog.testing import Broker, Cluster

from . import calls
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


def test_orders_are_published(tidelog_shared_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": tidelog_shared_broker.bootstrap})
    producer.produce("orders", b"one coffee")
    assert producer.flush(30) == 0


@pytest.mark.tidelog_settings({"num.partitions": 3})
def test_orders_survive_a_crash_of_the_broker(tidelog_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": tidelog_broker.bootstrap, "acks": "all"})
    producer.produce("orders", b"before")
    assert producer.flush(30) == 0
    tidelog_broker.kill()
    producer.produce("orders", b"while it was down")
    tidelog_broker.start()
    assert producer.flush(60) == 0
    with Wire(tidelog_broker.bootstrap) as wire:
        calls.await_topic(wire, "orders", 3)
        assert sum(calls.end_offset(wire, "orders", partition) for partition in range(3)) == 2


def test_orders_survive_the_loss_of_a_broker(tidelog_cluster: Cluster) -> None:
    tidelog_cluster.create_topic("orders", mode="quorum", partitions=1)
    producer = Producer({"bootstrap.servers": tidelog_cluster.bootstrap, "acks": "all"})
    producer.produce("orders", b"before")
    assert producer.flush(30) == 0
    tidelog_cluster.leader_of("orders").kill()
    producer.produce("orders", b"after")
    assert producer.flush(60) == 0
    with Wire(tidelog_cluster.leader_of("orders").bootstrap) as wire:
        # Two records, and one of each elected leader.
        assert calls.end_offset(wire, "orders") == 4
