"""Archives under misuse: lost logs, impossible times, removed files, other settings than before."""

import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidelog.spark import OptionError
from tidelog.spark.pipelines import (
    Archive,
    Compaction,
    Decoding,
    Restore,
    Topics,
    Verify,
    archive,
    compact,
    read_archive,
    restore,
)
from tidelog.spark.pipelines import verify as run_verify
from tidelog.spark.pipelines.tables import TableError

from .conftest import CreateTopic

MICROSECONDS = 1_790_000_000_000_000  # as milliseconds: the year 58692


def produce(bootstrap: str, topic: str, *values: bytes | None, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    refused: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            refused.append(error)

    for value in values:
        producer.produce(topic, value=value, on_delivery=delivered, **more)
    assert producer.flush(60) == 0 and not refused


def offsets(spark: SparkSession, target: str) -> list[int]:
    return sorted(row.offset for row in read_archive(spark, target).select("offset").collect())


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_times_and_names_at_their_limits_are_archived(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, table_format: str
) -> None:
    pytest.importorskip({"delta": "deltalake"}.get(table_format, "pyspark"))
    topic = topic_of_any_time(create_topic, table_format)
    target = str(tmp_path / "a b")
    job = Archive(Topics(bootstrap, topic), target, table_format=table_format)
    for _ in range(2):
        produce(bootstrap, topic, b"now", headers=[("a", None), ("a", b""), ("b", b"x")])
        produce(bootstrap, topic, b"late", timestamp=MICROSECONDS)
        archive(spark, job)
    assert compact(spark, Compaction(target)).removed_files > 0
    rows = read_archive(spark, target)
    found = rows.where("value = 'late'").selectExpr(
        "unix_millis(timestamp) as ms", "cast(date as string) as day"
    )
    assert {(row.ms, row.day) for row in found.collect()} == {(MICROSECONDS, "9999-12-31")}
    checked = run_verify(spark, Verify(target, bootstrap))
    assert checked.holds and offsets(spark, target) == [0, 1, 2, 3], checked.findings


def test_a_time_that_iceberg_cannot_store_is_told_and_the_table_stays_as_it_was(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    pytest.importorskip("pyiceberg")
    topic = topic_of_any_time(create_topic, "iceberg")
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "a b"), table_format="iceberg")
    produce(bootstrap, topic, b"now", headers=[("a", None), ("a", b""), ("b", b"x")])
    archive(spark, job)
    produce(bootstrap, topic, b"late", timestamp=MICROSECONDS)
    with pytest.raises(TableError, match="outside of the years 1 to 9999"):
        archive(spark, job)
    assert offsets(spark, job.target) == [0]


def topic_of_any_time(create_topic: CreateTopic, prefix: str) -> str:
    """With a name of the greatest length."""
    name = f"{prefix}.{os.getpid()}-".ljust(249, "x")
    return create_topic(1, name=name, message_timestamp_after_max_ms=2**63 - 1)


def test_a_lost_log_is_made_again_from_the_records(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """Of a topic that was created again with fewer records."""
    topic, target = create_topic(1), tmp_path / "archive"
    job = Archive(Topics(bootstrap, topic), str(target), merge_bytes=0)
    produce(bootstrap, topic, *[b"first"] * 9)
    archive(spark, job)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    create_topic(1, name=topic)
    produce(bootstrap, topic, *[b"second"] * 4)
    archive(spark, job)
    shutil.rmtree(target / "_log")
    produce(bootstrap, topic, b"second")
    report = archive(spark, job)
    assert report.records == 1 and "has no log" in report.notes[0]
    assert offsets(spark, str(target)) == sorted([*range(9), *range(5)])
    assert run_verify(spark, Verify(str(target), bootstrap)).holds
    shutil.rmtree(target / "_log")
    assert compact(spark, Compaction(str(target))).records == 14  # It makes the log, too.

    # Of the first incarnation the archive is the only copy: a file that is gone is still missed.
    rows = read_archive(spark, str(target)).where("value = 'first'")
    (file,) = {row.file for row in rows.selectExpr("_metadata.file_path as file").collect()}
    Path(urlparse(file).path).unlink()
    found = run_verify(spark, Verify(str(target), bootstrap))
    # It was merged with the records of the second incarnation, which the topic still has.
    assert found.counts == {"removed": 9, "missing": 5}
    assert any("9 of the archived records" in each.detail for each in found.findings)


def test_a_restore_is_complete_and_values_that_were_dropped_are_not_restored_as_empty(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, target = create_topic(1), str(tmp_path / "archive")
    topics, decoding = Topics(bootstrap, topic), Decoding("json", "id int")
    produce(bootstrap, topic, b'{"id": 1}', None)
    archive(spark, Archive(topics, target, decoding))
    produce(bootstrap, topic, b'{"id": 2}')
    with pytest.raises(TableError, match="has the original values of its records"):
        archive(spark, Archive(topics, target, decoding, keeps_value=False))
    produce(bootstrap, topic, b"no JSON")
    archive(spark, Archive(topics, target, decoding))
    assert offsets(spark, target) == [0, 1, 2]
    assert (
        restore(spark, Restore(target, bootstrap, f"{topic}-whole")).records == 4
    )  # with the undecodable one
    mixed = str(tmp_path / "mixed")
    rows = read_archive(spark, target).selectExpr("* except (value)", "if(offset = 2, null, value) as value")
    rows.write.partitionBy("topic", "date").parquet(f"{mixed}/records")  # as earlier versions allowed
    with pytest.raises(OptionError, match="has 1 records without their original values"):
        restore(spark, Restore(mixed, bootstrap, f"{topic}-again"))


def test_an_iceberg_archive_with_a_renamed_column_is_told_and_not_changed(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    pytest.importorskip("pyiceberg")
    from tidelog.spark.pipelines.tables.iceberg_catalogs import open_catalog

    topic, target = create_topic(1), str(tmp_path / "archive")
    job = Archive(Topics(bootstrap, topic), target, table_format="iceberg")
    produce(bootstrap, topic, b"first")
    archive(spark, job)
    catalog, namespace = open_catalog(target, {})
    with catalog.load_table((*namespace, "records")).update_schema() as columns:
        columns.rename_column("key", "name")
    produce(bootstrap, topic, b"second")
    with pytest.raises(TableError, match="has the column key under the name name, which another program"):
        archive(spark, job)
    with pytest.raises(TableError, match="needs a Spark session with Iceberg's runtime jar"):
        run_verify(spark, Verify(target, bootstrap))
