"""Disks are slow, full, failing, damaged and wiped, and clocks jump."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Parties, inject

from .clients import PATIENCE_S, QUIET, create_topic, read, watermarks, write
from .conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(make_cluster: MakeCluster) -> LabCluster:
    made = make_cluster("slow-disk")
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


def test_a_wiped_broker_gets_everything_from_the_others(cluster: LabCluster) -> None:
    assert write(cluster, "records", b"kept by others") == 1
    follower = cluster.followers_of("records")[0]
    fault = inject(cluster, "wipe", Parties((follower,)))
    assert fault.name == f"wiped disk of broker {follower}"
    assert not cluster.data_directory(follower).exists()
    fault.heal()
    cluster.await_ready()
    cluster.await_in_sync("records")
    assert (cluster.data_directory(follower) / "records-0").exists()


def test_what_needs_other_hooks_is_said(cluster: LabCluster) -> None:
    with pytest.raises(FaultError, match="needs a cluster with a relay or namespaces"):
        inject(cluster, "cut", Parties((1,)))
    with pytest.raises(FaultError, match="no segment with records of nothing"):
        inject(cluster, "flipped-bit", Parties((1,), topic="nothing"))
