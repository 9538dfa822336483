"""Primary-backup topics with real brokers and clients: what stops when a primary or a backup is away, what
goes on, and that nothing is lost.

Broker 4 is the victim: it has replicas, and no vote.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import NewTopic

import kafka
from tidelog.testing import Broker, Cluster, running_cluster

from .calls import LATEST, eventually
from .cluster_load import CLIENT_SETTINGS, admin_client
from .replicas import segments
from .test_cluster_disks import flip_a_bit
from .test_java import JARS
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

VICTIM, BACKUP = 4, 2
ALONG = Path(__file__).parent / "java" / "Along.java"
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("groups"), 4) as cluster:
        yield cluster


@pytest.fixture
def victim(cluster: Cluster) -> Iterator[Broker]:
    """The primary of the first partition; whatever a test does to it, the next one finds it whole."""
    yield cluster[VICTIM]
    if not cluster[VICTIM].is_running:
        cluster[VICTIM].start()
    cluster.await_ready()


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
                found.append(message.value().decode())
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
                consumer.commit(message, asynchronous=False)
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


def test_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    """Consumers of all kinds go on from the backup and commit; who needs no order writes elsewhere; who does
    waits; and when the primary is back, everybody returns to it and finds everything in order.
    """
    topic = create(cluster, "away", 1, [1, 3], [3, 1])
    followers = [kind(cluster, topic, f"{topic}-{kind.__name__}") for kind in FOLLOWERS]
    writer, pinned = Writer(cluster, topic), Writer(cluster, topic)
    writer.put(*numbers(0, 90)).flush()
    pinned.put(*numbers(0, 300), partition=0).flush()
    victim.kill()
    cluster.wait_for(lambda: cluster.partition(topic).leader != VICTIM, "the primary is not missed")

    def read(count: int, partition: int | None = None) -> bool:
        return all(
            len({place for place in each.read if partition in (None, place[0])}) >= count
            for each in followers
        )

    on_backup = len([place for place in writer.acked if place[0] == 0]) + 300
    eventually(lambda: read(on_backup, 0), "all read what the backup has")
    # A burst may still go to the partition it was meant for a moment ago; then the producer knows.
    eventually(lambda: writer.put("x").poll() and len(writer.acked) > 300, "writes go elsewhere")
    assert {place[0] for place in writer.acked[90:]} == {1, 2}
    pinned.put(*numbers(300, 310), partition=0)
    late = Writer(cluster, topic).put("late", partition=0)
    commits = [each.commits for each in followers]
    eventually(
        lambda: (
            writer.put("x").poll()
            and all(each.commits > before for each, before in zip(followers, commits, strict=True))
        ),
        TIMEOUT_S,
    )
    late.poll()
    assert late.waiting == 1
    assert len(pinned.acked) == 300

    victim.start()
    for each in (writer, pinned, late):
        each.flush()
        assert (each.waiting, each.failed) == (0, [])
    everything = len(writer.acked) + len(pinned.acked) + 1
    eventually(lambda: read(everything), "all read everything")
    for each in followers:
        each.finish()
        for partition in range(3):
            offsets = [offset for place, offset in each.read if place == partition]
            assert offsets == list(range(len(offsets))), f"{each.name} read partition {partition} otherwise"
    own = [offset for _, offset, _ in pinned.acked]
    assert own == sorted(own)


def test_a_double_write_without_its_backup(cluster: Cluster, victim: Broker) -> None:
    """Refused before the append, never acknowledged with one copy; reading goes on."""
    topic = create(cluster, "double", 2)
    Writer(cluster, topic).put("a", partition=0).flush()
    cluster[BACKUP].kill()
    try:
        cluster.wait_for(lambda: members(cluster, topic, victim) == (VICTIM,), "the backup is not missed")
        refused = Writer(cluster, topic, retries=0).put("b", partition=0).flush()
        assert (refused.failed, refused.acked) == (["NOT_ENOUGH_REPLICAS"], [])
        assert values(cluster, topic, 1) == ["a"]
        patient = Writer(cluster, topic).put("c", partition=0)
    finally:
        cluster[BACKUP].start()
    patient.flush()
    assert values(cluster, topic, 2) == ["a", "c"]


def test_a_double_write_whose_backup_does_not_answer(cluster: Cluster, victim: Broker) -> None:
    """An error of its own within the timeout; and a retry writes the record once."""
    topic = create(cluster, "late", 2)
    plain = Writer(cluster, topic, **{"retries": 0, "request.timeout.ms": 300, "socket.timeout.ms": 5000})
    again = Writer(cluster, topic, **{"enable.idempotence": True, "request.timeout.ms": 300})
    for each in (plain, again):
        each.put("first", partition=0).flush()
    cluster[BACKUP].pause()
    try:
        plain.put("plain", partition=0).flush()
        assert plain.failed == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
        again.put("once", partition=0).poll()
    finally:
        cluster[BACKUP].resume()
    again.flush()
    again.put("last", partition=0).flush()
    assert values(cluster, topic, 5) == ["first", "first", "plain", "once", "last"]


def test_fewer_copies_where_the_topic_allows_it(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "degrading", 2, replication_degrade_after_ms=300)
    cluster[BACKUP].kill()
    try:
        writer = Writer(cluster, topic).put(*numbers(0, 5), partition=0).flush()
        assert len(writer.acked) == 5
        assert "1 of 2 copies make an ok" in victim.log_text()
    finally:
        cluster[BACKUP].start()
    eventually(lambda: "an ok means all copies again" in victim.log_text(), "two copies again")


def test_a_frozen_primary(cluster: Cluster, victim: Broker) -> None:
    """Readers move to the backup when its session is over; what writers had under way goes on with it."""
    topic = create(cluster, "frozen", 2)
    writer = Writer(cluster, topic, **{"enable.idempotence": True})
    writer.put(*numbers(0, 50), partition=0).flush()
    victim.pause()
    try:
        writer.put(*numbers(50, 60), partition=0).poll()
        assert values(cluster, topic, 50) == numbers(0, 50)
        assert len(writer.acked) == 50
    finally:
        victim.resume()
    writer.flush()
    assert values(cluster, topic, 60) == numbers(0, 60)


def wipe(broker: Broker) -> None:
    broker.kill()
    shutil.rmtree(broker.data_directory)


def test_a_primary_with_an_empty_disk_copies_back(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "wiped", 2)
    Writer(cluster, topic).put(*numbers(0, 200), partition=0).flush()
    wipe(victim)
    victim.start()
    after = Writer(cluster, topic).put(*numbers(200, 220), partition=0).flush()
    assert [offset for _, offset, _ in after.acked] == list(range(200, 220))
    assert values(cluster, topic, 220) == numbers(0, 220)
    assert "copies back from broker 2" in victim.log_text()


def test_with_one_copy_an_empty_disk_is_for_the_operator(cluster: Cluster, victim: Broker) -> None:
    """The primary does not lead by itself, the backup is not overwritten, and promoting it is lossless as far
    as it got.
    """
    topic = create(cluster, "given-up", 1)
    Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 50, "copied")
    wipe(victim)
    victim.start()
    cluster.await_ready()
    eventually(
        lambda: f"broker {VICTIM} does not lead: its disk was replaced" in victim.log_text(), "it says so"
    )
    waiting = Writer(cluster, topic).put("new", partition=0)
    assert values(cluster, topic, 50) == numbers(0, 50)
    plan = promote(cluster, topic, BACKUP)
    assert (plan["executed"], [copy["end_offset"] for copy in plan["copies"]]) == (False, [0, 50])
    assert promote(cluster, topic, BACKUP, "--yes")["primary"]["end_offset"] == 50
    waiting.flush()
    assert values(cluster, topic, 51) == [*numbers(0, 50), "new"]
    cluster.await_in_sync(topic)


def test_promoted_while_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    """Only on the operator's word; the old primary gives up what only it had, and says how much."""
    topic = create(cluster, "promoted", 1)
    writer = Writer(cluster, topic).put(*numbers(0, 20), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 20, "copied")
    cluster[BACKUP].kill()
    try:
        writer.put(*numbers(20, 25), partition=0).flush()  # One copy is enough.
        victim.kill()
    finally:
        cluster[BACKUP].start()
    told = promote(cluster, topic, BACKUP)
    assert (told["executed"], told["unheard"]) == (False, [VICTIM])
    assert cluster.partition(topic).replicas == (VICTIM, BACKUP)
    done = promote(cluster, topic, BACKUP, "--yes")
    assert (done["forced"], done["primary"]["end_offset"]) == (True, 20)
    Writer(cluster, topic).put("new", partition=0).flush()
    victim.start()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 21) == [*numbers(0, 20), "new"]
    assert "gave up 5 records" in victim.log_text()


def test_a_flipped_bit_in_an_old_segment_of_the_primary(cluster: Cluster, victim: Broker) -> None:
    """It reaches nobody; the primary drops what is damaged and gets it back from its backup."""
    topic = create(cluster, "flipped", 1, segment_bytes=1 << 16)
    padding = "x" * 1000
    writer = Writer(cluster, topic, **{"batch.size": 10_000})  # A batch has to fit into a segment.
    writer.put(*(f"{n}{padding}" for n in range(300)), partition=0).flush()
    eventually(lambda: holds(cluster[BACKUP], topic) == 300, "copied")
    assert victim.stop() == 0
    flip_a_bit(segments(victim, topic)[0])
    victim.start()
    cluster.await_ready()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 300) == [f"{n}{padding}" for n in range(300)]
    eventually(lambda: "damaged" in victim.log_text(), "it says that it was damaged")
    cluster.await_in_sync(topic)
    Writer(cluster, topic).put("after", partition=0).flush()
    assert holds(victim, topic) == 301


def test_a_primary_whose_disk_lost_the_end_of_its_log(cluster: Cluster, victim: Broker) -> None:
    """Nobody noticed, the primary least: its backup knows of more, and nothing there is cut off."""
    topic = create(cluster, "shortened", 2)
    writer = Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    for number in numbers(50, 60):  # Each in a batch of its own.
        writer.put(number, partition=0).flush()
    victim.kill()
    log = segments(victim, topic)[-1]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 300)
    victim.start()
    cluster.await_ready()
    cluster.await_in_sync(topic)
    assert values(cluster, topic, 60) == numbers(0, 60)
    assert "a backup has confirmed records up to 60" in victim.log_text()


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


@pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
def test_kafkas_own_client_while_the_primary_is_away(cluster: Cluster, victim: Broker) -> None:
    topic = create(cluster, "java", 1, [1, 3], [3, 1])
    client = JavaClient(cluster, topic)
    try:
        eventually(lambda: {place[0] for place in client.places("read")} == {0, 1, 2}, "it begins")
        unread = Writer(cluster, topic).put(*numbers(0, 500), partition=0).flush()
        victim.kill()
        cluster.wait_for(lambda: cluster.partition(topic).leader != VICTIM, "the primary is not missed")
        eventually(
            lambda: (
                {offset for _, offset, _ in unread.acked}
                <= {offset for place, offset in client.places("read") if place == 0}
            ),
            "it reads what the backup has",
        )
        before, commits = len(client.places("wrote")), client.count("committed")
        eventually(
            lambda: len(client.places("wrote")) > before + 300 and client.count("committed") > commits + 3,
            "it goes on",
        )
        victim.start()
        back = len(client.places("wrote"))
        eventually(
            lambda: 0 in {place for place, _ in client.places("wrote")[back:]}, "it writes there again"
        )
        eventually(
            lambda: set(client.places("wrote")[: back + 10]) <= set(client.places("read")),
            "it reads everything",
        )
    finally:
        client.finish()
    assert client.count("failed") == 0
    for partition in range(3):
        offsets = [offset for place, offset in client.places("read") if place == partition]
        assert offsets == list(range(len(offsets)))
