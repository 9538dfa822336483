"""Topics whose replicas vote, on real brokers with real clients.

``TIDELOG_TEST_FAULT_ROUNDS=30`` runs as many rounds of faults instead of the short series.
"""

import subprocess
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ElectionType

from tidelog.testing import Cluster, running_cluster

from .calls import eventually
from .cluster_load import Load, admin_client, create_topic
from .test_cluster_faults import (
    CUT,
    FREEZE,
    KILL,
    LONG,
    PARTITIONS,
    ROUNDS,
    STOP,
    TOPIC,
    cluster,
    network,
    run_series,
)

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]
__all__ = ["cluster", "network"]

SHORT = [(KILL, "leader"), (FREEZE, "leader"), (CUT, "leader"), (STOP, "leader"), (KILL, "follower")]
IMPATIENT = {"log_level": 2, "socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 500}


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_acknowledged_records_survive_every_fault(cluster: Cluster) -> None:
    series = list(islice(cycle(LONG), ROUNDS)) if ROUNDS else SHORT
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replication_mode="quorum", segment_bytes=1 << 20)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS, gaps=True, mode="quorum")
    run_series(cluster, load, series)


class Ledger:
    """One idempotent producer for several topics; who was acknowledged, and what is there in the end."""

    def __init__(self, cluster: Cluster, topics: tuple[str, ...], partitions: int) -> None:
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions
        self._sent = 0
        self.acknowledged: dict[tuple[str, int], list[bytes]] = {
            (topic, partition): [] for topic in topics for partition in range(partitions)
        }

    def write(self, timeout_s: float) -> set[str]:
        """A record to every partition; the topics of which none was acknowledged in time."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap, "enable.idempotence": True, "acks": "all",
                "message.timeout.ms": int(timeout_s * 1000), **IMPATIENT,
            }
        )  # fmt: skip
        answered: dict[str, int] = dict.fromkeys(self._topics, 0)

        def delivered(error: object, message: Any) -> None:
            if error is None:
                answered[message.topic()] += 1
                self.acknowledged[message.topic(), message.partition()].append(message.value())

        for topic, partition in self.acknowledged:
            self._sent += 1
            producer.produce(topic, str(self._sent).encode(), partition=partition, on_delivery=delivered)
        producer.flush(timeout_s + 30)
        return {topic for topic, acks in answered.items() if acks < self._partitions}

    def check(self) -> None:
        """Every acknowledged record is there, and in the order in which it was acknowledged."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._cluster.bootstrap, "group.id": "unused", **IMPATIENT}
        )
        consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in self.acknowledged])
        found: dict[tuple[str, int], list[bytes]] = {place: [] for place in self.acknowledged}

        def is_all_there() -> bool:
            messages: list[Any] = consumer.consume(1000, 0.2)
            for message in messages:
                if message.error() is None:
                    found[message.topic(), message.partition()].append(message.value())
            return all(set(self.acknowledged[place]) <= set(values) for place, values in found.items())

        eventually(is_all_there, "everything acknowledged is read")
        consumer.close()
        for place, values in found.items():
            kept = [value for value in values if value in set(self.acknowledged[place])]
            assert kept == self.acknowledged[place], place


@pytest.mark.timeout(300)
def test_five_replicas_by_votes_and_by_the_controllers_survive_the_same(tmp_path: Path) -> None:
    """The classic exercise: a DLedger cluster of 5 nodes with 50 queues, and the isr settings that are worth
    the same. Both go on with any two brokers dead, and both refuse with three.
    """
    topics = ("ledger", "isr")
    with running_cluster(tmp_path, 5) as cluster:
        create_topic(cluster.bootstrap, "ledger", 50, 5, replication_mode="quorum")
        create_topic(cluster.bootstrap, "isr", 50, 5, min_insync_replicas=3)
        ledger = Ledger(cluster, topics, 50)
        assert ledger.write(60) == set()
        for dead in ((1, 2), (4, 5)):
            for number in dead:
                cluster[number].kill()
            assert ledger.write(60) == set()
            for number in dead:
                cluster[number].start()
            cluster.await_ready()
            cluster.await_in_sync(*topics)
        for number in (1, 3, 5):
            cluster[number].kill()
        assert ledger.write(5) == set(topics)
        for number in (1, 3, 5):
            cluster[number].start()
        cluster.await_ready()
        cluster.await_in_sync(*topics)
        ledger.check()


@pytest.mark.timeout(180)
def test_leaders_and_voters_move_under_load(tmp_path: Path) -> None:
    """A stopping broker hands its leaderships over, they go home when it is asked for, and replicas move one
    voter at a time; writes and reads go on, and nothing is lost.
    """
    with running_cluster(tmp_path, 4) as cluster:
        admin = admin_client(cluster.bootstrap)
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replication_mode="quorum")
        cluster.await_in_sync(TOPIC)
        load = Load(cluster.bootstrap, TOPIC, PARTITIONS, gaps=True)
        load.start()
        victim = cluster.leader_of(TOPIC, 0)
        victim.restart()
        cluster.await_ready()
        cluster.await_in_sync(TOPIC)
        load.await_writes(time.monotonic())

        def all_are_home() -> bool:
            return all(part.leader == part.replicas[0] for part in cluster.view(TOPIC).topics[TOPIC])

        for _ in admin.elect_leaders(ElectionType.PREFERRED, None).result(60).values():
            pass
        cluster.wait_for(all_are_home, "the preferred replicas do not lead")
        load.await_writes(time.monotonic())

        # Broker 1 and its leaderships go; --watch ends when every move is done.
        command = ["tidelog", "topic", "reassign", TOPIC, "--to", "2,3,4", "--execute", "--watch"]
        subprocess.run([*command, "--bootstrap", cluster.bootstrap], check=True, timeout=100)
        assert all(set(part.replicas) == {2, 3, 4} for part in cluster.view(TOPIC).topics[TOPIC])
        cluster.await_in_sync(TOPIC)
        load.await_writes(time.monotonic())
        load.finish()
        load.check()
