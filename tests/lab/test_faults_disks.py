"""Disks are slow, full, failing, damaged and wiped, clocks jump, and power fails: what was not synced
is gone, and the cluster copes with it as it promises.
"""

import time
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidelog.client.cluster_view import voter_directories
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Injected, Parties, inject
from tidelog.lab.faults.replay import Replay
from tidelog.runtime.hooks.journal import read_entries

from .clients import PATIENCE_S, QUIET, create_topic, read, watermarks, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]

VALUES = [b"%04d" % n * 20 for n in range(200)]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    made = make_cluster("slow-disk", "power-failure")
    create_topic(made, "records")
    return made


@pytest.fixture(autouse=True)
def healed(cluster: LabCluster) -> None:
    cluster.await_ready()
    cluster.await_in_sync("records")


def timestamp_of_last(cluster: LabCluster, topic: str) -> int:
    settings = {"group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": cluster.client_bootstrap, **QUIET, **settings})
    try:
        _, end = watermarks(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, end - 1)])
        (message,) = consumer.consume(1, PATIENCE_S)
        return int(message.timestamp()[1])
    finally:
        consumer.close()


def test_writes_to_a_slow_disk_take_longer(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    fault = inject(cluster, "slow-disk", Parties((leader,)), {"ms": 300})
    assert fault.name == f"300 ms for each write and sync of broker {leader}"
    start = time.monotonic()
    assert write(cluster, "records", b"slow") == 1
    assert time.monotonic() - start >= 0.3
    fault.heal()
    assert write(cluster, "records", b"again") == 1


def test_a_broker_with_a_full_disk_hands_over_and_comes_back(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    fault = inject(cluster, "full-disk", Parties((leader,)))
    assert write(cluster, "records", b"elsewhere") == 1
    assert cluster.leader_of("records") != leader
    fault.heal()
    cluster.await_in_sync("records")
    assert read(cluster, "records")[-1] == b"elsewhere"


def test_a_broker_with_a_failing_disk_hands_over_and_comes_back(cluster: LabCluster) -> None:
    leader = cluster.leader_of("records")
    fault = inject(cluster, "failing-disk", Parties((leader,)))
    assert write(cluster, "records", b"elsewhere, too") == 1
    assert cluster.leader_of("records") != leader
    fault.heal()
    cluster.await_in_sync("records")
    assert read(cluster, "records")[-1] == b"elsewhere, too"


def test_a_clock_jumps_there_and_back(cluster: LabCluster) -> None:
    """The timestamps that the broker gives records tell its time."""
    create_topic(cluster, "stamped", message_timestamp_type="LogAppendTime")
    leader = cluster.leader_of("stamped")
    hour_ms = 3_600_000
    fault = inject(cluster, "clock-jump", Parties((leader,)), {"seconds": -2 * 3600})
    assert fault.name == f"clock of broker {leader} 7200 s back"
    assert write(cluster, "stamped", b"early") == 1
    assert timestamp_of_last(cluster, "stamped") < time.time() * 1000 - hour_ms
    fault.heal()
    assert write(cluster, "stamped", b"now") == 1
    assert timestamp_of_last(cluster, "stamped") > time.time() * 1000 - hour_ms


def test_a_flipped_bit_is_found_and_repaired_from_the_others(cluster: LabCluster) -> None:
    create_topic(cluster, "damaged")
    cluster.await_in_sync("damaged")
    values = [b"%d" % n * 50 for n in range(100)]
    assert write(cluster, "damaged", *values) == 100
    leader = cluster.leader_of("damaged")
    segment = next((cluster.data_directory(leader) / "damaged-0").glob("*.log"))
    before = segment.read_bytes()
    fault = inject(cluster, "flipped-bit", Parties((leader,), topic="damaged"))
    assert fault.is_momentary
    changed = segment.read_bytes()
    assert sum(bin(one ^ other).count("1") for one, other in zip(before, changed, strict=True)) == 1
    inject(cluster, "kill", Parties((leader,))).heal()  # its records are checked when it opens the log
    cluster.await_ready()
    cluster.await_in_sync("damaged")
    assert read(cluster, "damaged") == values


def voters(cluster: LabCluster, asked: int) -> dict[int, UUID]:
    """The controllers that vote, with their disks."""
    broker = cluster.cluster[asked]
    return voter_directories(broker.host, broker.port)


def test_a_wiped_broker_gets_everything_from_the_others(cluster: LabCluster) -> None:
    assert write(cluster, "records", b"kept by others") == 1
    follower = cluster.followers_of("records")[0]
    leader = cluster.leader_of("records")
    before = voters(cluster, leader)
    assert before.keys() == set(cluster.brokers)
    fault = inject(cluster, "wipe", Parties((follower,)))
    assert fault.name == f"wiped disk of broker {follower}"
    assert not cluster.data_directory(follower).exists()
    fault.heal()
    cluster.await_ready()
    cluster.await_in_sync("records")
    assert (cluster.data_directory(follower) / "records-0").exists()

    def is_readmitted() -> bool:
        now = voters(cluster, leader)
        return now.keys() == before.keys() and now[follower] != before[follower]

    # Until then, three controllers tolerate no other failure, and the next test makes one.
    cluster.cluster.wait_for(is_readmitted, f"controller {follower} was not readmitted with its new disk")


def test_what_needs_other_hooks_is_said(cluster: LabCluster) -> None:
    with pytest.raises(FaultError, match="needs a cluster with a relay or namespaces"):
        inject(cluster, "cut", Parties((1,)))
    with pytest.raises(FaultError, match="no segment with records of nothing"):
        inject(cluster, "flipped-bit", Parties((1,), topic="nothing"))


# --- power failures -----------------------------------------------------------------------------------------


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
