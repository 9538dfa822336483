"""A leader killed under load on a topic of every mode, and the indicators of it beside a count by hand.

What the pipeline says is computed from the history that the run left; what it is compared with, from what
this test saw itself: every answer as it came, and the topics as a consumer of its own reads them.
"""

import time
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.load import SteadyLoad, value_of
from tidelog.spark.pipelines.indicators import Indicators, RunSummary, indicators, write_report
from tidelog.testing import Cluster, running_cluster

RUN = "kill -9 of a leader"
VICTIM = 2
BOTH = [[2, 3, 1], [1, 2, 3]]  # The victim leads the first partition.
TWO_OF_THEM = [[2, 3], [1, 3]]
TOPICS: dict[str, tuple[list[list[int]], dict[str, str]]] = {
    "isr": (BOTH, {"replication.mode": "isr", "min.insync.replicas": "2"}),
    "async": (TWO_OF_THEM, {"replication.mode": "primary-backup", "min.insync.replicas": "1"}),
    "double": (TWO_OF_THEM, {"replication.mode": "primary-backup", "min.insync.replicas": "2"}),
    "quorum": (BOTH, {"replication.mode": "quorum"}),
    "damaged": ([[1]], {}),
}
MODES = [topic for topic in TOPICS if topic != "damaged"]
IMPATIENT = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 500}


class Noted(HistoryWriter):
    """Also keeps in memory what it is told."""

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, run=RUN, mode=mode)
        self.told: list[dict[str, Any]] = []

    def add(self, kind: str, time_us: int, **said: Any) -> None:
        self.told.append({"kind": kind, "time_us": time_us, **said})
        super().add(kind, time_us, **said)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.told if event["kind"] == kind]


def create_topics(cluster: Cluster, admin: AdminClient) -> None:
    topics = [
        NewTopic(name, len(placed), replica_assignment=placed, config=config)
        for name, (placed, config) in TOPICS.items()
    ]
    for created in admin.create_topics(topics).values():
        created.result(60)
    cluster.await_in_sync(*TOPICS)


def kill_under_load(cluster: Cluster, histories: dict[str, Noted]) -> None:
    loads = {
        mode: SteadyLoad(cluster.bootstrap, mode, 2, IMPATIENT, history=histories[mode]) for mode in MODES
    }
    for load in loads.values():
        load.start()

    def await_writes(*modes: str) -> None:
        since = time.monotonic()
        cluster.wait_for(
            lambda: all(loads[mode].wrote_since(since) for mode in modes), f"{modes} are not written to"
        )

    await_writes(*MODES)
    for mode in MODES:
        histories[mode].fault("kill -9 of broker 2")
    cluster[VICTIM].kill()
    await_writes("isr", "quorum")
    for mode in MODES:
        histories[mode].healed("broker 2 is back")
    cluster[VICTIM].start()
    await_writes(*MODES)
    for load in loads.values():
        load.stop()
        assert not load.failed
        load.read_back()


def write_badly(cluster: Cluster, admin: AdminClient, history: Noted) -> None:
    """What a correct broker does not do by itself: 30 records, of which three are there twice and two in the
    wrong order, and the first five are deleted before anyone reads them.
    """
    reading = SteadyLoad(cluster.bootstrap, "damaged", 1, history=history)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for sequence in (*range(20), 7, 8, 9, 21, 20, *range(22, 30)):
        sent_us = now_us()
        producer.produce("damaged", value_of("p", sequence), partition=0)
        assert producer.flush(30) == 0
        history.add(
            "acknowledged", now_us(), sent_us=sent_us, producer="p", partition=0, sequence=sequence, bytes=100
        )
    admin.delete_records([TopicPartition("damaged", 0, 5)])[TopicPartition("damaged", 0)].result(30)
    assert reading.read_back() == 33 - 5


def read_all(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[tuple[str, int]]]:
    """The records of each partition in the order of offsets, as (producer, sequence)."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "count", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: dict[int, list[tuple[str, int]]] = {number: [] for number in range(partitions)}
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(1000, 1):
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is None:
                name, sequence, _ = (message.value() or b"").decode().split("/")
                found[partition].append((name, int(sequence)))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(partition)
    consumer.close()
    return found


def counted(history: Noted, there: dict[int, list[tuple[str, int]]]) -> dict[str, int]:
    acknowledged = {
        (one["partition"], one["producer"], one["sequence"]) for one in history.of("acknowledged")
    }
    copies = Counter((partition, *record) for partition, records in there.items() for record in records)
    reordered = 0
    for records in there.values():
        latest: dict[str, int] = defaultdict(lambda: -1)
        for producer, sequence in dict.fromkeys(records):  # where each is first
            reordered += sequence < latest[producer]
            latest[producer] = max(latest[producer], sequence)
    return {
        "acknowledged": len(history.of("acknowledged")),
        "received": len(copies),
        "lost": len(acknowledged - copies.keys()),
        "duplicated": copies.total() - len(copies),
        "reordered": reordered,
    }


def waited_in_vain_ms(history: Noted) -> float:
    """From one answer to the next: for how long did the oldest that was not answered yet wait."""
    [fault] = history.of("fault")
    longest = 0
    for partition in (0, 1):
        answers = [one for one in history.of("acknowledged") if one["partition"] == partition]
        answers.sort(key=lambda one: one["time_us"])
        not_yet = list(accumulate((one["sent_us"] for one in reversed(answers)), min))[::-1]
        before = 0
        for one, oldest in zip(answers, not_yet, strict=True):
            if one["time_us"] > fault["time_us"]:
                longest = max(longest, one["time_us"] - max(before, oldest, fault["time_us"]))
            before = one["time_us"]
    return longest / 1000


def test_the_indicators_of_a_real_run_are_what_was_seen(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    histories = {mode: Noted(tmp_path / "history" / f"{mode}.jsonl", mode) for mode in TOPICS}
    with running_cluster(tmp_path / "cluster") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create_topics(cluster, admin)
        kill_under_load(cluster, histories)
        write_badly(cluster, admin, histories["damaged"])
        there = {topic: read_all(cluster, topic, len(TOPICS[topic][0])) for topic in TOPICS}
    for history in histories.values():
        history.close()
    with histories["isr"].path.open("ab") as file:
        file.write(b'{"kind":"received","time_us":17')

    report = indicators(spark, Indicators([str(tmp_path / "history")]))
    assert report.torn_lines == 1
    assert report.events == sum(len(history.told) for history in histories.values())
    assert [(one.run, one.mode) for one in report.runs] == [(RUN, mode) for mode in sorted(TOPICS)]
    for one in report.runs:
        assert figures(one) == counted(histories[one.mode], there[one.mode]), one.mode
    by_mode = {one.mode: one for one in report.runs}
    for mode in MODES:
        assert (by_mode[mode].lost, by_mode[mode].reordered, by_mode[mode].is_over) == (0, 0, True)
        assert by_mode[mode].downtime_ms == pytest.approx(waited_in_vain_ms(histories[mode]), abs=0.01)
    assert figures(by_mode["damaged"]) == {
        "acknowledged": 33, "received": 25, "lost": 5, "duplicated": 3, "reordered": 1,
    }  # fmt: skip
    # A backup does not take over: writes to the killed primary's partition waited until it was back.
    for mode in ("async", "double"):
        [fault] = [one for one in report.faults if one.mode == mode]
        assert fault.healed_second is not None and fault.downtime_ms is not None and fault.partition == 0
        assert fault.downtime_ms > (fault.healed_second - fault.second) * 1000
    page = Path(write_report(report, str(tmp_path / "report"))[-1]).read_text()
    assert "kill -9 of broker 2" in page and "1 torn line left out" in page


def figures(one: RunSummary) -> dict[str, int]:
    names = ("acknowledged", "received", "lost", "duplicated", "reordered")
    return {name: getattr(one, name) for name in names}
