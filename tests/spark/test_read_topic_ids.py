"""Topics that are deleted and created again under the same name: their ids tell, their offsets do not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tidelog.client.cluster import Cluster
from tidelog.client.errors import TopicReplaced, UnknownTopic
from tidelog.client.settings import ClientSettings, parse_bootstrap
from tidelog.spark.options import OptionError
from tidelog.spark.reading.batch import TidelogReader
from tidelog.spark.reading.columns import default_schema
from tidelog.spark.reading.loss import DataLoss
from tidelog.spark.reading.positions import TOPIC_IDS
from tidelog.spark.reading.settings import read_settings
from tidelog.spark.reading.stream import TidelogStreamReader

from .golden import produce

CreateTopic = Callable[..., str]
ALL = ReadAllAvailable()


def options_of(bootstrap: str, topic: str, options: dict[str, Any]) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "columns": "partition,offset,value"}
    return given | {name: str(value) for name, value in options.items()}


def stream_reader(bootstrap: str, topic: str, **options: Any) -> TidelogStreamReader:
    given = options_of(bootstrap, topic, {"startingOffsets": "earliest"} | options)
    return TidelogStreamReader(read_settings(given, streaming=True), default_schema(given))


def batch_reader(bootstrap: str, topic: str, **options: Any) -> TidelogReader:
    given = options_of(bootstrap, topic, options)
    return TidelogReader(read_settings(given, streaming=False), default_schema(given))


def topic_id(bootstrap: str, topic: str) -> str:
    with Cluster(ClientSettings(parse_bootstrap(bootstrap))) as cluster:
        return cluster.topics([topic])[topic].topic_id


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # It must live until the answer is there.
    admin.delete_topics([topic])[topic].result(30)


def create_again(bootstrap: str, create_topic: CreateTopic, topic: str, records: int) -> None:
    delete(bootstrap, topic)
    create_topic(1, name=topic)
    produce(bootstrap, topic, [b"new"] * records)


def values(reading: TidelogStreamReader | TidelogReader, tasks: list[Any]) -> list[bytes]:
    return [
        value for task in tasks for batch in reading.read(task) for value in batch.column("value").to_pylist()
    ]


@pytest.fixture
def old_topic(bootstrap: str, create_topic: CreateTopic) -> str:
    """With nine records, to be replaced."""
    topic = create_topic(1)
    produce(bootstrap, topic, [b"old"] * 9)
    return topic


@pytest.mark.parametrize("records", [5, 20], ids=["fewer", "more"])
@pytest.mark.parametrize("available_now", [True, False])
def test_a_stream_whose_topic_was_created_again(
    bootstrap: str, create_topic: CreateTopic, old_topic: str, records: int, available_now: bool
) -> None:
    before = stream_reader(bootstrap, old_topic)
    position = before.latestOffset(before.initialOffset(), ALL)
    before.stop()
    create_again(bootstrap, create_topic, old_topic, records)

    strict = stream_reader(bootstrap, old_topic)
    lenient = stream_reader(bootstrap, old_topic, failOnDataLoss="false")
    if available_now:
        strict.prepareForTriggerAvailableNow()
        lenient.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"The topic {old_topic} was deleted and created again"):
        strict.latestOffset(position, ALL)
    with pytest.warns(UserWarning, match=f"The topic {old_topic} was deleted and created again"):
        first = lenient.latestOffset(position, ReadMaxRows(3))
    assert values(lenient, lenient.partitions(position, first)) == [b"new"] * 3
    last = lenient.latestOffset(first, ALL)
    assert values(lenient, lenient.partitions(first, last)) == [b"new"] * (records - 3)
    strict.stop()
    lenient.stop()


def test_available_now_sees_a_topic_that_shrank_without_an_id(bootstrap: str, old_topic: str) -> None:
    """An old checkpoint, or a broker without topic ids."""
    reading = stream_reader(bootstrap, old_topic)
    reading.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"{old_topic}-0 ends at offset 9, and was read up to 12 already"):
        reading.latestOffset({old_topic: {"0": 12}}, ALL)
    reading.stop()


def test_available_now_that_begins_behind_its_own_target(bootstrap: str, old_topic: str) -> None:
    """Spark asks for the target first: what is written before it asks for the beginning is no loss."""
    reading = stream_reader(bootstrap, old_topic, startingOffsets="latest")
    reading.prepareForTriggerAvailableNow()
    produce(bootstrap, old_topic, [b"later"] * 3)
    start = reading.initialOffset()
    assert start[old_topic] == {"0": 12}
    assert reading.latestOffset(start, ALL) == start
    reading.stop()


def test_a_checkpoint_without_ids_goes_on_and_gets_them(bootstrap: str, old_topic: str) -> None:
    reading = stream_reader(bootstrap, old_topic)
    end = reading.latestOffset({old_topic: {"0": 4}}, ALL)
    assert end == {old_topic: {"0": 9}, TOPIC_IDS: {old_topic: topic_id(bootstrap, old_topic)}}
    assert len(values(reading, reading.partitions({old_topic: {"0": 4}}, end))) == 5
    reading.stop()
    plain = stream_reader(bootstrap, old_topic, checkTopicIds="false")
    for start in ({old_topic: {"0": 4}}, end):
        assert plain.latestOffset(start, ALL) == {old_topic: {"0": 9}}
    plain.stop()


def test_a_topic_that_is_created_again_between_a_plan_and_its_tasks(
    bootstrap: str, create_topic: CreateTopic, old_topic: str
) -> None:
    reading = stream_reader(bootstrap, old_topic)
    start = reading.initialOffset()
    end = reading.latestOffset(start, ALL)
    stream_tasks = reading.partitions(start, end)
    strict = batch_reader(bootstrap, old_topic)
    lenient = batch_reader(bootstrap, old_topic, failOnDataLoss="false")
    tasks = strict.partitions()
    create_again(bootstrap, create_topic, old_topic, 20)
    for one, planned in ((reading, stream_tasks), (strict, tasks)):
        with pytest.raises(DataLoss, match="was deleted and created again"):
            values(one, planned)
    with pytest.warns(UserWarning, match="was deleted and created again"):
        assert values(lenient, tasks) == []
    with pytest.raises(DataLoss, match="was deleted and created again"):
        reading.partitions(start, end)
    reading.stop()


def test_a_batch_read_of_the_topic_that_was_meant(
    bootstrap: str, create_topic: CreateTopic, old_topic: str
) -> None:
    ids = json.dumps({old_topic: topic_id(bootstrap, old_topic)})
    meant = batch_reader(bootstrap, old_topic, topicIds=ids, failOnDataLoss="false")
    tasks = meant.partitions()
    assert values(meant, tasks) == [b"old"] * 9
    with pytest.raises(OptionError, match="names other, which is not read"):
        batch_reader(bootstrap, old_topic, topicIds=ids.replace(old_topic, "other")).partitions()
    create_again(bootstrap, create_topic, old_topic, 20)
    for outcome in (meant.partitions, lambda: values(meant, tasks)):
        with pytest.raises(TopicReplaced, match="was deleted and created again"):
            outcome()


def test_a_stream_goes_on_with_the_topics_that_are_left(
    bootstrap: str, create_topic: CreateTopic, old_topic: str
) -> None:
    gone = create_topic(1)
    produce(bootstrap, gone, [b"x"] * 2)
    reading = stream_reader(bootstrap, f"{old_topic},{gone}", failOnDataLoss="false")
    position = reading.latestOffset(reading.initialOffset(), ALL)
    delete(bootstrap, gone)
    produce(bootstrap, old_topic, [b"y"])
    with pytest.warns(UserWarning, match=f"no topic {gone}"):
        following = reading.latestOffset(position, ALL)
    assert following[old_topic] == {"0": 10}
    assert values(reading, reading.partitions(position, following)) == [b"y"]
    reading.stop()


def test_a_topic_that_never_was_is_no_loss(bootstrap: str, old_topic: str) -> None:
    reading = stream_reader(bootstrap, "nowhere")
    reading.prepareForTriggerAvailableNow()
    with pytest.raises(UnknownTopic, match="There is no topic nowhere in the cluster at"):
        reading.initialOffset()
    with pytest.raises(DataLoss, match="nowhere-0, which was read up to offset 4, is not there any more"):
        reading.latestOffset({"nowhere": {"0": 4}}, ALL)
    reading.stop()
    pattern = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"{old_topic}.*"}
    by_pattern = TidelogStreamReader(read_settings(pattern, streaming=True), default_schema(pattern))
    by_pattern.prepareForTriggerAvailableNow()
    assert by_pattern.latestOffset({old_topic: {"0": 4}}, ALL)[old_topic] == {"0": 9}
    by_pattern.stop()


def test_a_query_on_a_topic_that_was_created_again_fails_with_one_sentence(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, old_topic: str, tmp_path: Path
) -> None:
    source = spark.readStream.format("tidelog").options(**options_of(bootstrap, old_topic, {}))
    frame = source.option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(100)
    create_again(bootstrap, create_topic, old_topic, 5)
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception, match="was deleted and created again") as failed:
        query.awaitTermination(100)
    assert "Traceback" not in str(failed.value)
