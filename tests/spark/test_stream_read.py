"""Streams: micro-batches, limits, checkpoints, topics that grow or go, brokers that die."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tidelog.spark.reading.columns import default_schema
from tidelog.spark.reading.loss import DataLoss
from tidelog.spark.reading.positions import TOPIC_IDS
from tidelog.spark.reading.settings import read_settings
from tidelog.spark.reading.stream import TidelogStreamReader
from tidelog.testing import Cluster

from .golden import produce

CreateTopic = Callable[..., str]
WAIT_S = 100


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.option("columns", "partition,offset,value").load()


class Kept:
    """Every row of every micro-batch, by its number: what a sink that forgets nothing would hold."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self._changed = threading.Condition()

    def keep(self, frame: DataFrame, number: int) -> None:
        found = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        with self._changed:
            self.batches[number] = found
            self._changed.notify_all()

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    def await_rows(self, count: int, query: StreamingQuery) -> None:
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            while len(self.rows) < count:
                assert query.exception() is None, query.exception()
                assert time.monotonic() < deadline, f"only {len(self.rows)} of {count} rows came"
                self._changed.wait(0.2)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def started(spark: SparkSession) -> Iterator[list[StreamingQuery]]:
    """Queries that end with their test, whatever happens."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def run_available(frame: DataFrame, kept: Kept, checkpoint: str) -> StreamingQuery:
    query = (
        frame.writeStream.foreachBatch(kept.keep)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None
    return query


def test_available_now_in_limited_batches_and_from_its_checkpoint(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, checkpoint: str, kept: Kept
) -> None:
    topic = create_topic(2)
    for partition in range(2):
        produce(bootstrap, topic, [b"x"] * 100, partition=partition)
    query = run_available(stream(spark, bootstrap, topic, maxOffsetsPerTrigger=60), kept, checkpoint)
    assert kept.rows == [(partition, offset) for partition in range(2) for offset in range(100)]
    assert [len(rows) for rows in kept.batches.values() if rows] == [60, 60, 60, 20]
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress.sources[0].latestOffset) == {topic: {"0": 100, "1": 100}}

    produce(bootstrap, topic, [b"y"] * 30, partition=1)
    again = Kept()
    run_available(stream(spark, bootstrap, topic), again, checkpoint)
    assert again.rows == [(1, offset) for offset in range(100, 130)]


def test_a_stream_follows_a_topic_that_grows(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    checkpoint: str,
    kept: Kept,
    started: list[StreamingQuery],
) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 50)
    frame = stream(spark, bootstrap, topic)
    started.append(frame.writeStream.foreachBatch(kept.keep).option("checkpointLocation", checkpoint).start())
    kept.await_rows(50, started[0])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    for partition in range(3):
        produce(bootstrap, topic, [b"y"] * 20, partition=partition)
    kept.await_rows(110, started[0])
    assert kept.rows == [
        *((0, offset) for offset in range(70)),
        *((partition, offset) for partition in (1, 2) for offset in range(20)),
    ]


def test_a_stream_goes_on_when_a_broker_dies(
    spark: SparkSession,
    tidelog_cluster: Cluster,
    create_topic: CreateTopic,
    checkpoint: str,
    kept: Kept,
    started: list[StreamingQuery],
) -> None:
    bootstrap = tidelog_cluster.bootstrap
    topic = create_topic(3, 3, at=bootstrap)
    for partition in range(3):
        produce(bootstrap, topic, [b"x"] * 100, partition=partition)
    tidelog_cluster.await_in_sync(topic)
    frame = stream(spark, bootstrap, topic, maxOffsetsPerTrigger=60)
    started.append(frame.writeStream.foreachBatch(kept.keep).option("checkpointLocation", checkpoint).start())
    kept.await_rows(60, started[0])
    tidelog_cluster.leader_of(topic, 1).kill()
    for partition in range(3):
        produce(bootstrap, topic, [b"y"] * 100, partition=partition)
    kept.await_rows(600, started[0])
    assert kept.rows == [(partition, offset) for partition in range(3) for offset in range(200)]


def reader(bootstrap: str, topic: str, **options: Any) -> TidelogStreamReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    given |= {name.replace("__", "."): str(value) for name, value in options.items()}
    return TidelogStreamReader(read_settings(given, streaming=True), default_schema(given))


def offsets_of(wire: dict[str, Any]) -> dict[str, Any]:
    """Without the topic ids."""
    return {topic: offsets for topic, offsets in wire.items() if topic != TOPIC_IDS}


def test_limits(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(3)
    for partition, count in enumerate([900, 90, 1]):
        produce(bootstrap, topic, [b"x"] * count, partition=partition)
    start = {topic: {"0": 0, "1": 0, "2": 0}}
    everything = {topic: {"0": 900, "1": 90, "2": 1}}

    def latest(limit: Any, **options: Any) -> dict[str, dict[str, int]]:
        reading = reader(bootstrap, topic, **options)
        try:
            return offsets_of(reading.latestOffset(start, limit))
        finally:
            reading.stop()

    assert latest(ReadAllAvailable(), maxOffsetsPerTrigger=10) == everything
    assert latest(ReadMaxRows(991)) == everything
    # By the backlog of each, and nobody starves.
    assert latest(ReadMaxRows(100)) == {topic: {"0": 90, "1": 9, "2": 1}}
    assert isinstance(reader(bootstrap, topic).getDefaultReadLimit(), ReadAllAvailable)
    assert reader(bootstrap, topic, maxOffsetsPerTrigger=5).getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(bootstrap, topic, minOffsetsPerTrigger=5).getDefaultReadLimit() == ReadMinRows(5)


def test_a_batch_waits_for_enough_records_but_not_for_ever(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 5)
    patient = reader(bootstrap, topic, minOffsetsPerTrigger=10)
    limit = patient.getDefaultReadLimit()
    first = patient.latestOffset({topic: {"0": 0}}, limit)
    assert offsets_of(first) == {topic: {"0": 5}}  # nothing has been waited for yet
    produce(bootstrap, topic, [b"x"] * 9)
    assert patient.latestOffset(first, limit) == first
    produce(bootstrap, topic, [b"x"])
    assert offsets_of(patient.latestOffset(first, limit)) == {topic: {"0": 15}}
    assert patient.reportLatestOffset() == {topic: {"0": 15}}
    patient.stop()

    hasty = reader(bootstrap, topic, minOffsetsPerTrigger=10, maxTriggerDelay="0ms")
    hasty.latestOffset({topic: {"0": 0}}, limit)
    assert offsets_of(hasty.latestOffset({topic: {"0": 14}}, limit)) == {topic: {"0": 15}}
    hasty.stop()


def test_available_now_ends_where_it_began(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 5)
    reading = reader(bootstrap, topic, startingOffsets="earliest", minOffsetsPerTrigger=100)
    start = reading.initialOffset()
    reading.prepareForTriggerAvailableNow()
    produce(bootstrap, topic, [b"later"] * 5)
    end = reading.latestOffset(start, reading.getDefaultReadLimit())
    assert (offsets_of(start), offsets_of(end)) == ({topic: {"0": 0}}, {topic: {"0": 5}})
    assert reading.latestOffset(end, reading.getDefaultReadLimit()) == end
    reading.stop()


def test_where_a_stream_begins(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    produce(bootstrap, topic, [b"x"] * 5, partition=0)

    def initial(**options: Any) -> dict[str, int]:
        reading = reader(bootstrap, topic, **options)
        try:
            return reading.initialOffset()[topic]
        finally:
            reading.stop()

    assert initial() == {"0": 5, "1": 0}
    assert initial(startingOffsets="earliest") == {"0": 0, "1": 0}
    assert initial(startingOffsets=f'{{"{topic}":{{"0":3,"1":-1}}}}') == {"0": 3, "1": 0}
    assert initial(startingTimestamp=1, startingOffsetsByTimestampStrategy="latest") == {"0": 0, "1": 0}


def test_a_topic_that_went_or_shrank_under_a_stream(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 5)
    ahead = {topic: {"0": 9}}
    strict = reader(bootstrap, topic)
    with pytest.raises(DataLoss, match=f"{topic}-0 ends at offset 5, and was read up to 9 already"):
        strict.latestOffset(ahead, ReadAllAvailable())
    strict.stop()
    lenient = reader(bootstrap, topic, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="ends at offset 5"):
        assert offsets_of(lenient.latestOffset(ahead, ReadAllAvailable())) == {topic: {"0": 5}}

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    with pytest.raises(DataLoss, match=f"no topic {topic}"):
        strict.latestOffset({topic: {"0": 5}}, ReadAllAvailable())
    strict.stop()
    with pytest.warns(UserWarning, match=f"no topic {topic}"):
        assert lenient.latestOffset({topic: {"0": 5}}, ReadAllAvailable()) == {topic: {"0": 5}}
    lenient.stop()


def test_offsets_are_written_as_sparks_own_source_writes_them(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, checkpoint: str, kept: Kept
) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"x"] * 3)
    run_available(stream(spark, bootstrap, topic, checkTopicIds="false"), kept, checkpoint)
    written = (Path(checkpoint) / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(written) == {topic: {"0": 3}}
