"""What an operator does at the wrong moment, over the public protocol."""

import pytest

from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Parties, inject

from .clients import create_topic, read, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    made = make_cluster()
    create_topic(made, "records", replicas=2)
    return made


def test_a_topic_moves_away_from_a_broker(cluster: LabCluster) -> None:
    assert write(cluster, "records", b"moved") == 1
    leader = cluster.leader_of("records")
    fault = inject(cluster, "reassign", Parties((leader,), topic="records"))
    assert fault.name == f"move of records away from broker {leader}"
    cluster.cluster.wait_for(
        lambda: leader not in cluster.partition("records").replicas, "the replica did not move"
    )
    assert read(cluster, "records")[-1] == b"moved"


def test_a_drained_broker_leads_nothing_until_the_drain_ends(cluster: LabCluster) -> None:
    cluster.await_in_sync("records")
    leader = cluster.leader_of("records")
    fault = inject(cluster, "drain", Parties((leader,)))
    cluster.cluster.wait_for(lambda: cluster.leader_of("records") != leader, "leadership did not move")
    fault.heal()
    assert write(cluster, "records", b"after the drain") == 1


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
        inject(cluster, "change-mode", Parties((), topic="records"), {"mode": "raft"})
    with pytest.raises(FaultError, match="cannot be changed"):
        inject(cluster, "change-settings", Parties((), topic="records"), {"settings": "retention.ms=soon"})
    with pytest.raises(FaultError, match="no other broker to move"):
        inject(cluster, "reassign", Parties((1, 2, 3), topic="records"))
    with pytest.raises(FaultError, match="about a topic"):
        inject(cluster, "reassign", Parties((1,)))
