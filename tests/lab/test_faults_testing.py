"""The fixtures of tidelog.testing with faults, as docs/testing.md shows them."""

import pytest
from confluent_kafka import Producer

from tidelog.testing import BreakableCluster, FaultError

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def publish(cluster: BreakableCluster, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 2})
    producer.produce("orders", value)
    assert producer.flush(60) == 0


@pytest.mark.tidelog_faults("network", "power", "disk")
def test_orders_survive_what_happens_to_a_cluster(tidelog_cluster: BreakableCluster) -> None:
    cluster = tidelog_cluster
    publish(cluster, b"before")
    leader = cluster.leader_of("orders").node_id
    cluster.cut(leader, *(broker.node_id for broker in cluster if broker.node_id != leader))
    cluster.slow_disk(*(broker.node_id for broker in cluster), ms=1)
    publish(cluster, b"while the leader is cut off")
    cluster.heal()
    cluster.await_in_sync("orders")
    failed = cluster.leader_of("orders")
    cluster.power_fail(failed.node_id)
    assert not failed.is_running
    publish(cluster, b"after the power failure")
    failed.start()
    cluster.await_in_sync("orders")


@pytest.mark.tidelog_faults("disk")
@pytest.mark.tidelog_brokers(1)
def test_what_was_not_asked_for_cannot_be_made(tidelog_cluster: BreakableCluster) -> None:
    with pytest.raises(FaultError, match="needs a cluster with a relay"):
        tidelog_cluster.cut(1)
    with pytest.raises(FaultError, match="keeps a journal"):
        tidelog_cluster.power_fail(1)
    tidelog_cluster.set_clock(1, seconds=60)
