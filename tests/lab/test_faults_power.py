"""Power failures: what was written and not synced is gone, and the cluster copes with it as it promises."""

from pathlib import Path

import pytest

from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Injected, Parties, inject
from tidelog.lab.faults.replay import Replay
from tidelog.runtime.hooks.journal import read_entries

from .clients import create_topic, read, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]

VALUES = [b"%04d" % n * 20 for n in range(200)]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    return make_cluster("power-failure")


def segment_bytes(cluster: LabCluster, number: int, topic: str) -> int:
    directory: Path = cluster.data_directory(number) / f"{topic}-0"
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def has_unsynced(cluster: LabCluster, number: int, topic: str) -> bool:
    journal = cluster.journal(number)
    assert journal is not None
    changes = Replay().remains(read_entries(journal)).changes
    segments = (cluster.data_directory(number) / f"{topic}-0").glob("*.log")
    return any(changes.get(path.stat().st_ino) for path in segments)


def fill(cluster: LabCluster, topic: str) -> list[bytes]:
    assert write(cluster, topic, *VALUES) == len(VALUES)
    return [*VALUES]


def freeze_with_unsynced(cluster: LabCluster, topic: str, written: list[bytes]) -> Injected:
    """Freezes the replicas when each has written something that it has not synced: a new log is synced now
    and then, also after it was looked at. Healing lets those go on that live.
    """
    replicas = tuple(cluster.partition(topic).replicas)
    while True:
        frozen = inject(cluster, "freeze", Parties(replicas))
        if all(has_unsynced(cluster, number, topic) for number in replicas):
            return frozen
        frozen.heal()
        written.append(b"more")
        assert write(cluster, topic, b"more") == 1


def test_one_broker_loses_what_it_did_not_sync_and_gets_it_back(cluster: LabCluster) -> None:
    create_topic(cluster, "one")
    written = fill(cluster, "one")
    leader = cluster.leader_of("one")
    frozen = freeze_with_unsynced(cluster, "one", written)
    before = segment_bytes(cluster, leader, "one")
    fault = inject(cluster, "power-failure", Parties((leader,)))
    frozen.heal()
    assert fault.name == f"power failure of broker {leader}"
    assert segment_bytes(cluster, leader, "one") < before
    assert write(cluster, "one", b"meanwhile") == 1
    fault.heal()
    cluster.await_ready()
    cluster.await_in_sync("one")
    assert read(cluster, "one") == [*written, b"meanwhile"]


def test_all_brokers_lose_what_an_isr_topic_may_lose_and_nothing_of_a_quorum_topic(
    cluster: LabCluster,
) -> None:
    create_topic(cluster, "in-sync")
    create_topic(cluster, "voted", replication_mode="quorum")
    written = {topic: fill(cluster, topic) for topic in ("voted", "in-sync")}
    freeze_with_unsynced(cluster, "in-sync", written["in-sync"])
    before = [segment_bytes(cluster, number, "in-sync") for number in cluster.brokers]
    fault = inject(cluster, "power-failure", Parties(cluster.brokers))
    after = [segment_bytes(cluster, number, "in-sync") for number in cluster.brokers]
    assert all(one < other for one, other in zip(after, before, strict=True))
    fault.heal()
    cluster.await_ready()
    assert read(cluster, "voted") == written["voted"]
    left = read(cluster, "in-sync")
    assert left == written["in-sync"][: len(left)]
    assert write(cluster, "in-sync", b"goes on") == 1


def test_a_killed_broker_keeps_what_it_wrote_until_the_power_fails(cluster: LabCluster) -> None:
    create_topic(cluster, "twice", replicas=1)
    written = fill(cluster, "twice")
    leader = cluster.leader_of("twice")
    freeze_with_unsynced(cluster, "twice", written)
    before = segment_bytes(cluster, leader, "twice")
    kill = inject(cluster, "kill", Parties((leader,)))
    assert segment_bytes(cluster, leader, "twice") == before
    inject(
        cluster, "power-failure", Parties((leader,))
    )  # the machine goes down with the process dead already
    assert segment_bytes(cluster, leader, "twice") < before
    kill.heal()
    cluster.await_ready()
    left = read(cluster, "twice")
    assert left == written[: len(left)]
    assert len(left) < len(written)


def test_without_a_journal_there_is_no_power_failure(make_cluster: MakeCluster) -> None:
    plain = make_cluster(brokers=1, start=False)
    with pytest.raises(FaultError, match="keeps a journal"):
        inject(plain, "power-failure", Parties((1,)))
