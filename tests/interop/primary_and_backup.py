"""What the tests of primary-backup topics have in common: writers that keep account, readers of every kind
that follow along, and Kafka's own client in a program beside them.

Broker 4 is the victim: it has replicas, and no vote.
"""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import NewTopic

import kafka
from tidelog.testing import Broker, Cluster

from .calls import LATEST, eventually
from .cluster_load import CLIENT_SETTINGS, admin_client
from .consumed import value_of
from .test_java import JARS
from .wire import Wire

VICTIM, BACKUP = 4, 2
TIMEOUT_S = 60.0
ALONG = Path(__file__).parent / "java" / "Along.java"


def create(cluster: Cluster, name: str, copies: int, *more: list[int], **configs: object) -> str:
    """Partition 0 with its primary on the victim; ``more``: replicas of other partitions."""
    settings = {
        "replication.mode": "primary-backup",
        "min.insync.replicas": str(copies),
        **{key.replace("_", "."): str(value) for key, value in configs.items()},
    }
    placed = [[VICTIM, BACKUP], *more]
    topic = NewTopic(name, num_partitions=len(placed), replica_assignment=placed, config=settings)
    admin = admin_client(cluster.bootstrap)  # It must not go before its answer comes.
    admin.create_topics([topic])[name].result(TIMEOUT_S)
    cluster.await_in_sync(name)
    return name


def members(cluster: Cluster, topic: str, broker: Broker) -> tuple[int, ...]:
    """The in-sync set of the first partition, as far as this broker has heard."""
    return cluster.view(topic, of=broker).topics[topic][0].in_sync


def holds(broker: Broker, topic: str) -> int:
    """Where this broker's copy of the first partition ends."""
    part = {"partition_index": 0, "timestamp": LATEST}
    with Wire(broker.bootstrap) as wire:
        answer = wire.call("list_offsets", 8, replica_id=-2, topics=[{"name": topic, "partitions": [part]}])
    return int(answer.topics[0].partitions[0].offset)


class Writer:
    """A producer that remembers what was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, **settings: Any) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, **CLIENT_SETTINGS, **settings}
        )
        self._topic = topic
        self.acked: list[tuple[int, int, bytes]] = []  # partition, offset, value
        self.failed: list[str] = []

    def put(self, *values: str, partition: int = -1) -> "Writer":
        for value in values:
            self._producer.produce(
                self._topic, value.encode(), partition=partition, on_delivery=self._delivered
            )
        return self

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acked.append((message.partition(), message.offset(), message.value()))
        else:
            self.failed.append(str(error.name()))

    def flush(self, timeout_s: float = TIMEOUT_S) -> "Writer":
        self._producer.flush(timeout_s)
        return self

    def poll(self) -> bool:
        self._producer.poll(0.05)
        return True

    @property
    def waiting(self) -> int:
        return len(self._producer)


def values(cluster: Cluster, topic: str, count: int, partition: int = 0) -> list[str]:
    """The first records of a partition, as a new consumer reads them."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **CLIENT_SETTINGS,
        }
    )
    found: list[str] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])

        def enough() -> bool:
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                found.append(value_of(message).decode())
            return len(found) >= count

        eventually(enough, f"{count} records of {topic}-{partition} are read")
    finally:
        consumer.close()
    return found


class Follower(threading.Thread):
    """A member of a consumer group that reads along and commits."""

    def __init__(self, cluster: Cluster, topic: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._servers = cluster.bootstrap
        self._topic = topic
        self.read: list[tuple[int, int]] = []  # partition and offset
        self.commits = 0
        self.over = False
        self.start()

    def finish(self) -> None:
        self.over = True
        self.join(TIMEOUT_S)

    def committed(self, messages: Any) -> None:
        self.read += messages
        self.commits += 1


class ConfluentFollower(Follower):
    def run(self) -> None:
        settings = {
            "bootstrap.servers": self._servers, "group.id": self.name, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, **CLIENT_SETTINGS,
        }  # fmt: skip
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([self._topic])
        while not self.over:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                consumer.commit(message=message, asynchronous=False)
                self.committed([(message.partition(), message.offset())])
        consumer.close()


class KafkaPythonFollower(Follower):
    def run(self) -> None:
        consumer = kafka.KafkaConsumer(
            self._topic, bootstrap_servers=self._servers, group_id=self.name,
            auto_offset_reset="earliest", enable_auto_commit=False, reconnect_backoff_max_ms=500,
        )  # fmt: skip
        while not self.over:
            for messages in consumer.poll(200).values():
                consumer.commit()
                self.committed([(message.partition, message.offset) for message in messages])
        consumer.close()


class AiokafkaFollower(Follower):
    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self._topic, bootstrap_servers=self._servers, group_id=self.name,
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        while not self.over:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                await consumer.commit()
                self.committed([(message.partition, message.offset) for message in messages])
        await consumer.stop()


FOLLOWERS = (ConfluentFollower, KafkaPythonFollower, AiokafkaFollower)


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def promote(cluster: Cluster, topic: str, to: int, *arguments: str) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "tidelog", "topic", "promote", topic, "--partition", "0", "--to", str(to)),
        *("--bootstrap", cluster[BACKUP].bootstrap, "--json", *arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


class JavaClient:
    """A program with Kafka's own client that writes and reads along, and what it said."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
        self._process = subprocess.Popen(
            ["java", *options, str(ALONG), cluster.bootstrap, topic],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.said: list[list[str]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.split())

    def places(self, verb: str) -> list[tuple[int, int]]:
        return [(int(line[1]), int(line[2])) for line in list(self.said) if line[0] == verb]

    def count(self, verb: str) -> int:
        return sum(line[0] == verb for line in list(self.said))

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(TIMEOUT_S)
        self._listener.join(TIMEOUT_S)
