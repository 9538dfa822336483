"""Lines are cut, delayed and slowed down by the relay; what brokers and clients see of it."""

import socket
import time

import pytest

from tidelog.client.cluster_view import responds
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Parties, inject

from .clients import create_topic, read, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    made = make_cluster("cut", **{"replica.lag.time.max.ms": 2000})
    create_topic(made, "records")
    made.cluster.await_in_sync("records")
    return made


@pytest.fixture(autouse=True)
def healed(cluster: LabCluster) -> None:
    assert cluster.wiring is not None
    cluster.wiring.heal()
    cluster.await_in_sync("records")


def clients_reach(cluster: LabCluster, number: int, timeout_s: float = 0.5) -> bool:
    host, port = cluster.client_bootstrap.split(",")[number - 1].split(":")
    return responds(host, int(port), timeout_s)


def test_all_traffic_goes_through_the_relay(cluster: LabCluster) -> None:
    assert cluster.network == "relay"
    ports = {broker.port for broker in cluster.cluster}
    assert not ports & {int(address.split(":")[1]) for address in cluster.client_bootstrap.split(",")}
    known = cluster.cluster.view().brokers
    assert not ports & {port for _, port in known.values()}


def test_a_cut_off_leader_is_replaced_and_follows_after(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    others = tuple(number for number in cluster.brokers if number != leader)
    fault = inject(cluster, "cut", Parties((leader,)))
    assert fault.name == f"cut between broker {leader} and all others"
    assert not clients_reach(cluster, leader)
    assert write(cluster, "records", b"without the leader") == 1
    assert cluster.leader_of("records") in others
    fault.heal()
    assert clients_reach(cluster, leader, 10)
    cluster.await_in_sync("records")
    assert read(cluster, "records")[-1] == b"without the leader"


def test_brokers_that_are_cut_from_each_other_are_reached_by_clients(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    follower = cluster.followers_of("records")[0]
    with_cut = inject(cluster, "cut", Parties((leader,), (follower,)))
    assert clients_reach(cluster, leader)
    assert clients_reach(cluster, follower)
    # Without a write nobody lags. If one of the two is the controller, the other is fenced as well.
    assert write(cluster, "records", b"with one copy less") == 1
    assert not {leader, follower} <= set(cluster.partition("records").in_sync)
    with_cut.heal()
    cluster.await_in_sync("records")


def test_clients_that_are_cut_from_a_broker_hang(cluster: LabCluster) -> None:
    fault = inject(cluster, "cut", Parties(("clients",), (2,)))
    assert fault.name == "cut between clients and broker 2"
    assert not clients_reach(cluster, 2)
    assert clients_reach(cluster, 1)
    assert len(cluster.cluster.view().brokers) == 3  # brokers do not notice
    fault.heal()
    assert clients_reach(cluster, 2, 10)


def test_a_one_way_cut_is_noticed_where_responses_are_missing(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    follower = cluster.followers_of("records")[0]
    fault = inject(cluster, "one-way-cut", Parties((follower,), (leader,)))
    assert write(cluster, "records", b"with one copy less") == 1
    assert not {leader, follower} <= set(cluster.partition("records").in_sync)
    fault.heal()
    cluster.await_in_sync("records")


def test_a_delay_of_clients_is_as_long_as_asked_for(cluster: LabCluster) -> None:
    fault = inject(cluster, "delay", Parties(("clients",), (1,)), {"ms": 60, "jitter_ms": 10})
    assert fault.name == "60 ± 10 ms of delay between clients and broker 1"
    start = time.monotonic()
    assert clients_reach(cluster, 1, 5)
    assert time.monotonic() - start >= 0.1  # there and back
    fault.heal()
    assert clients_reach(cluster, 1)


def test_a_slow_line_passes_so_many_bytes_a_second(cluster: LabCluster) -> None:
    fault = inject(cluster, "bandwidth", Parties(("clients",), (1, 2, 3)), {"kbytes_per_s": 200})
    start = time.monotonic()
    assert write(cluster, "records", *[bytes([n]) * 20_000 for n in range(10)]) == 10
    assert time.monotonic() - start >= 0.8
    fault.heal()


def test_losses_stall_but_lose_nothing(cluster: LabCluster) -> None:
    fault = inject(cluster, "loss", Parties((1,), (2, 3)), {"percent": 20})
    values = [b"%d" % n for n in range(50)]
    assert write(cluster, "records", *values) == 50
    fault.heal()
    assert read(cluster, "records")[-50:] == values


def test_a_killed_broker_refuses_connections_through_the_relay(cluster: LabCluster) -> None:
    """So that brokers and clients notice it as fast as without the relay."""
    leader = cluster.leader_of("records")
    fault = inject(cluster, "kill", Parties((leader,)))
    assert write(cluster, "records", b"after") == 1
    with pytest.raises(ConnectionRefusedError):
        port = int(cluster.client_bootstrap.split(",")[leader - 1].split(":")[1])
        socket.create_connection(("127.0.0.1", port), 5)
    fault.heal()
    cluster.await_ready()


def test_what_cannot_be_cut_is_said(cluster: LabCluster) -> None:
    with pytest.raises(FaultError, match="no party 9; use one of 1, 2, 3, clients"):
        inject(cluster, "cut", Parties((9,)))
    with pytest.raises(FaultError, match="cannot be negative"):
        inject(cluster, "delay", Parties((1,)), {"ms": -1})
