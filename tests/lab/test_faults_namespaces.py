"""The same network faults by namespaces and netem, where this user may make them."""

import time

import pytest

from tidelog.client.cluster_view import responds
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import Parties, inject
from tidelog.lab.local.network import NetworkUnavailable

from .clients import create_topic, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    try:
        made = make_cluster("cut", namespaces=True)
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    create_topic(made, "records")
    return made


def clients_reach(cluster: LabCluster, number: int, timeout_s: float = 0.5) -> bool:
    return responds(cluster.cluster[number].host, 9092, timeout_s)


def test_clients_are_cut_from_a_broker_and_brokers_do_not_notice(cluster: LabCluster) -> None:
    assert cluster.network == "namespaces"
    fault = inject(cluster, "cut", Parties(("clients",), (2,)))
    assert not clients_reach(cluster, 2)
    assert clients_reach(cluster, 1)
    fault.heal()
    assert clients_reach(cluster, 2, 10)


def test_a_one_way_cut_between_brokers(cluster: LabCluster) -> None:
    cluster.await_in_sync("records")
    leader = cluster.leader_of("records")
    # An active controller that does not hear the leader fences it, and may appoint itself.
    active = cluster.controller()
    follower = next(each for each in cluster.followers_of("records") if each != active)
    fault = inject(cluster, "one-way-cut", Parties((leader,), (follower,)))
    # Without a write no follower lags. The write is acknowledged once one of the two is out of sync: the
    # follower, or on a machine that is too busy for heartbeats the leader, which then is another one.
    assert write(cluster, "records", b"without it") == 1
    assert not {leader, follower} <= set(cluster.partition("records").in_sync)
    assert clients_reach(cluster, follower)
    fault.heal()
    cluster.await_in_sync("records")


def test_a_delay_and_a_loss_at_the_same_time(make_cluster: MakeCluster) -> None:
    try:
        cluster = make_cluster("delay", brokers=1, namespaces=True)
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    delay = inject(cluster, "delay", Parties(("clients",), (1,)), {"ms": 60})
    loss = inject(cluster, "loss", Parties(("clients",), (1,)), {"percent": 1})
    start = time.monotonic()
    assert clients_reach(cluster, 1, 10)
    assert time.monotonic() - start >= 0.12
    loss.heal()
    delay.heal()
    assert clients_reach(cluster, 1)
