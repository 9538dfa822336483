"""Processes are killed, frozen, stopped and restarted, and an operator acts at the wrong moment: faults that
need no hooks. What clients see of it.
"""

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


# --- administration -----------------------------------------------------------------------------------------


def test_a_topic_moves_away_from_a_broker(cluster: LabCluster) -> None:
    create_topic(cluster, "moving", replicas=2)
    assert write(cluster, "moving", b"moved") == 1
    leader = cluster.leader_of("moving")
    fault = inject(cluster, "reassign", Parties((leader,), topic="moving"))
    assert fault.name == f"move of moving away from broker {leader}"
    cluster.cluster.wait_for(
        lambda: leader not in cluster.partition("moving").replicas, "the replica did not move"
    )
    assert read(cluster, "moving")[-1] == b"moved"


def test_a_drained_broker_leads_nothing_until_the_drain_ends(cluster: LabCluster) -> None:
    cluster.await_in_sync("moving")
    leader = cluster.leader_of("moving")
    fault = inject(cluster, "drain", Parties((leader,)))
    cluster.cluster.wait_for(lambda: cluster.leader_of("moving") != leader, "leadership did not move")
    fault.heal()
    assert write(cluster, "moving", b"after the drain") == 1


def test_a_topic_changes_its_mode_and_settings(cluster: LabCluster) -> None:
    create_topic(cluster, "changing")
    inject(cluster, "change-mode", Parties((), topic="changing"), {"mode": "quorum"})
    name = inject(
        cluster, "change-settings", Parties((), topic="changing"), {"settings": "retention.ms=1000000"}
    ).name
    assert name == "change of changing: retention.ms=1000000"
    assert write(cluster, "changing", b"under change") == 1
    assert read(cluster, "changing") == [b"under change"]


def test_what_the_cluster_refuses_is_said(cluster: LabCluster) -> None:
    with pytest.raises(FaultError, match="no mode 'raft'; use one of isr"):
        inject(cluster, "change-mode", Parties((), topic="moving"), {"mode": "raft"})
    with pytest.raises(FaultError, match="cannot be changed"):
        inject(cluster, "change-settings", Parties((), topic="moving"), {"settings": "retention.ms=soon"})
    with pytest.raises(FaultError, match="no other broker to move"):
        inject(cluster, "reassign", Parties((1, 2, 3), topic="moving"))
    with pytest.raises(FaultError, match="about a topic"):
        inject(cluster, "reassign", Parties((1,)))
