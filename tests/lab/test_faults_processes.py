"""Processes are killed, frozen, stopped and restarted; what clients see of it."""

import pytest

from tidelog.client.cluster_view import responds
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Parties, inject
from tidelog.lab.faults.processes import is_alive

from .clients import create_topic, read, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    made = make_cluster()
    create_topic(made, "records")
    return made


def answers(cluster: LabCluster, number: int) -> bool:
    broker = cluster.cluster[number]
    return responds(broker.host, broker.port, timeout_s=0.3)


def test_a_killed_leader_is_replaced_and_comes_back(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    assert write(cluster, "records", b"before") == 1
    fault = inject(cluster, "kill", Parties((leader,)))
    assert fault.name == f"kill -9 of broker {leader}"
    assert not answers(cluster, leader)
    assert write(cluster, "records", b"after") == 1
    assert cluster.leader_of("records") != leader
    fault.heal()
    fault.heal()  # twice is once
    cluster.await_in_sync("records")
    assert read(cluster, "records")[-2:] == [b"before", b"after"]


def test_a_frozen_broker_is_silent_and_goes_on(cluster: LabCluster) -> None:
    pid = cluster.pid(2)
    fault = inject(cluster, "freeze", Parties((2,)))
    assert not answers(cluster, 2)
    assert is_alive(pid)
    fault.heal()
    assert answers(cluster, 2)
    assert cluster.pid(2) == pid


def test_all_brokers_stop_cleanly_and_start_together(cluster: LabCluster) -> None:
    assert write(cluster, "records", b"kept") == 1
    fault = inject(cluster, "stop", Parties((3, 1, 2)))
    assert fault.name == "clean stop of brokers 3, 1 and 2"
    assert not any(answers(cluster, number) for number in cluster.brokers)
    fault.heal()
    cluster.await_ready()
    assert read(cluster, "records")[-1] == b"kept"


def test_a_restart_makes_new_processes_one_after_the_other(cluster: LabCluster) -> None:
    before = {number: cluster.pid(number) for number in cluster.brokers}
    inject(cluster, "restart", Parties((1, 2)))
    cluster.await_ready()
    changed = {number for number in cluster.brokers if cluster.pid(number) != before[number]}
    assert changed == {1, 2}


def test_what_cannot_be_done_is_said(cluster: LabCluster) -> None:
    with pytest.raises(FaultError, match="no broker 7; there are 1, 2, 3"):
        inject(cluster, "kill", Parties((7,)))
    with pytest.raises(FaultError, match="on brokers, not on clients"):
        inject(cluster, "kill", Parties(("clients",)))
    with pytest.raises(FaultError, match="no fault 'kil'; use one of kill, freeze"):
        inject(cluster, "kil", Parties((1,)))
    with pytest.raises(FaultError, match="takes no parameters, not 'ms'"):
        inject(cluster, "kill", Parties((1,)), {"ms": 5})
