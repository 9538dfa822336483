"""Archives written back: missing topics are created, and what does not fit is refused in one sentence."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.topics import require_topics
from tidelog.client.cluster import Cluster
from tidelog.client.settings import ClientSettings, parse_bootstrap
from tidelog.client.topic_creation import TopicRefused
from tidelog.client.topic_creation import create_topic as request_topic
from tidelog.client.topic_settings import topic_setting
from tidelog.spark import OptionError
from tidelog.spark.pipelines import Archive, NewTopics, Restore, Topics, archive, restore

from .arrived import consume
from .conftest import CreateTopic

MONTH_AGO_MS = (time.time_ns() // 1_000_000) - 30 * 86_400_000


@pytest.fixture
def archived(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> tuple[str, str]:
    """A topic of three partitions, and its archive."""
    topic = create_topic(3)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(topic, f"value {number}", str(number), partition=number % 3)
    producer.flush()
    target = str(tmp_path / "archive")
    archive(spark, Archive(Topics(bootstrap, topic), target))
    return topic, target


def in_partitions(bootstrap: str, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    for one in consume(bootstrap, topic):
        found.setdefault(one.partition, []).append((one.key, one.value))
    return found


def test_a_missing_topic_is_created(spark: SparkSession, bootstrap: str, archived: tuple[str, str]) -> None:
    topic, target = archived
    new = NewTopics(settings={"retention.ms": "-1"})
    again = f"{topic}-again"
    report = restore(spark, Restore(target, bootstrap, again, new_topics=new))
    assert (report.records, report.topics, report.created) == (30, [again], [again])
    assert in_partitions(bootstrap, again) == in_partitions(bootstrap, topic)
    with Cluster(ClientSettings(parse_bootstrap(bootstrap))) as cluster:
        assert topic_setting(cluster, [again], "retention.ms") == {again: "-1"}

    # Now it is there, and is not created again; one with too few partitions is refused before any record.
    with pytest.raises(OptionError, match="exists and has 3 partitions, not 5"):
        restore(spark, Restore(target, bootstrap, again, new_topics=NewTopics(partitions=5)))
    small = f"{topic}-small"
    with pytest.raises(
        OptionError, match="would have 1 partition, and the archive has records of partition 2"
    ):
        restore(spark, Restore(target, bootstrap, small, new_topics=NewTopics(partitions=1)))
    by_key = Restore(target, bootstrap, small, keeps_partitions=False, new_topics=NewTopics(partitions=1))
    assert restore(spark, by_key).created == [small]
    assert len(consume(bootstrap, small)) == 30
    with pytest.raises(OptionError, match="has 1 partition, and the archive has records of partition 2"):
        restore(spark, Restore(target, bootstrap, small))


def test_old_records_are_not_restored_to_a_topic_that_deletes_them(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """A restore was successful, and the retention of the topic emptied it moments later."""
    topic = create_topic(retention_ms=-1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for timestamp in (MONTH_AGO_MS, MONTH_AGO_MS + 1):
        producer.produce(topic, "old", timestamp=timestamp)
    producer.flush()
    target = str(tmp_path / "archive")
    archive(spark, Archive(Topics(bootstrap, topic), target))

    again = f"{topic}-again"
    for refused, words in (
        (Restore(target, bootstrap, create_topic(retention_ms=1000)), "alter .* --set retention.ms=-1"),
        (Restore(target, bootstrap, again, new_topics=NewTopics(settings={"retention.ms": "1000"})), "would"),
    ):
        with pytest.raises(OptionError, match=words):
            restore(spark, refused)
    stamped = create_topic(retention_ms=3_600_000, message_timestamp_type="LogAppendTime")
    assert restore(spark, Restore(target, bootstrap, stamped)).records == 2

    report = restore(spark, Restore(target, bootstrap, again))
    assert (report.created, report.kept) == ([again], [again])
    with Cluster(ClientSettings(parse_bootstrap(bootstrap))) as cluster:
        assert topic_setting(cluster, [again], "retention.ms") == {again: "-1"}
    assert len(consume(bootstrap, again)) == 2


def test_topics_of_one_name_are_not_mixed(
    spark: SparkSession, bootstrap: str, archived: tuple[str, str]
) -> None:
    topic, target = archived
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "of the second")
    producer.flush()
    archive(spark, Archive(Topics(bootstrap, topic), target))
    again = f"{topic}-again"
    with pytest.raises(OptionError, match="several topics that were called") as refused:
        restore(spark, Restore(target, bootstrap, again))
    ids = re.findall(r"[\w-]{22}", str(refused.value).partition("each of the ids")[2])
    counts = [
        restore(spark, Restore(target, bootstrap, f"{again}-{number}", where=f"topicId = '{each}'")).records
        for number, each in enumerate(ids)
    ]
    assert sorted(counts) == [1, 30]


def test_requests_about_topics(bootstrap: str, create_topic: CreateTopic) -> None:
    compacted = create_topic(1, cleanup_policy="compact")
    plain = create_topic(1)
    with Cluster(ClientSettings(parse_bootstrap(bootstrap))) as cluster:
        found = topic_setting(cluster, [compacted, plain], "cleanup.policy")
        assert found == {compacted: "compact", plain: "delete"}
        assert not request_topic(cluster, plain)
        with pytest.raises(TopicRefused, match=r"cannot be created: INVALID_\w+, .*\.$"):
            request_topic(cluster, f"{plain}-x", settings={"retention.ms": "soon"})
    require_topics(bootstrap, [compacted, "", plain])
    with pytest.raises(CommandFailed, match="Topic 'nosuch' does not exist"):
        require_topics(bootstrap, [plain, "nosuch"])
