"""Archives without a schema: the tasks that fetch the records write the files, and the table is the same as
if Spark had written it.
"""

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.spark.pipelines import Archive, Topics, Verify, archive, read_archive, verify
from tidelog.spark.pipelines.tables import Position, direct
from tidelog.spark.pipelines.tables.direct import DirectWrite
from tidelog.spark.pipelines.tables.opening import open_table

from .conftest import CreateTopic

DAY_MS = 86_400_000
MAY_17_MS = 20_590 * DAY_MS
PARTITIONS = 3


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """For each step that tasks could write: the number of its files, or None if Spark had to."""
    found: list[int | None] = []
    inner = DirectWrite.run

    def spying(self: DirectWrite) -> Any:
        made = inner(self)
        found.append(None if made is None else len(made))
        return made

    monkeypatch.setattr(direct.DirectWrite, "run", spying)
    return found


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def produce(bootstrap: str, topic: str, value: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(count):
        producer.produce(topic, value=value)
    assert producer.flush(60) == 0


def fill(bootstrap: str, topic: str) -> None:
    """Every kind of record and of batch, on three days."""
    for codec in ("none", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for number in range(60):
            producer.produce(
                topic,
                key=None if number % 3 else f"key {number}",
                value=None if number % 7 == 0 else os.urandom(number),
                headers=[("a", None), ("a", b""), ("b", b"x")] if number % 5 == 0 else None,
                partition=number % PARTITIONS,
                timestamp=MAY_17_MS + number % 3 * DAY_MS - number % 2,
            )
        assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-t"})
    producer.init_transactions(30)
    for is_kept in (True, False, True):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, value=str(is_kept), partition=partition)
        producer.flush(30)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
def test_the_table_is_the_one_that_spark_would_have_written(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    written: list[int | None],
    table_format: str,
) -> None:
    pytest.importorskip({"iceberg": "pyiceberg", "delta": "deltalake"}.get(table_format, "pyspark"))
    topic = create_topic(PARTITIONS, retention_ms=-1)
    fill(bootstrap, topic)

    def job(name: str, rows: int) -> Archive:
        target = str(tmp_path / name)
        return Archive(
            Topics(bootstrap, topic), target, table_format=table_format, merge_bytes=0, rows_per_step=rows
        )

    report = archive(spark, job("by tasks", 70))
    assert report.steps == len(written) > 1 and None not in written and report.records == 126
    assert report.added_files == sum(count or 0 for count in written)
    with setting(spark, "spark.sql.files.maxRecordsPerFile", "1000000"):
        archive(spark, job("by Spark", 1000))
    assert len(written) == report.steps
    ours, theirs = (read_archive(spark, str(tmp_path / name)) for name in ("by tasks", "by Spark"))
    assert ours.schema == theirs.schema
    places = ("partition", "offset")
    assert ours.orderBy(*places).collect() == theirs.orderBy(*places).collect()
    assert verify(spark, Verify(str(tmp_path / "by tasks"), bootstrap)).holds
    assert not list(tmp_path.rglob("_task-*")) and not list(tmp_path.rglob("step-*/_temporary"))


def test_spark_sorts_records_whose_times_are_in_no_order(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    written: list[int | None],
) -> None:
    topic = create_topic(1, retention_ms=-1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    days = [*range(30)] * 12
    random.Random(7).shuffle(days)
    for number, day in enumerate(days):
        producer.produce(topic, value=str(number), timestamp=MAY_17_MS + day * DAY_MS)
        producer.flush(30)  # a batch for each record
    little = {"kafka.max.partition.fetch.bytes": "400"}
    job = Archive(Topics(bootstrap, topic, options=little), str(tmp_path / "archive"), merge_bytes=0)
    report = archive(spark, job)
    assert written == [None] and (report.records, report.added_files) == (360, 30)
    assert verify(spark, Verify(job.target, bootstrap)).holds


@pytest.mark.parametrize("when", ["planned", "read"])
def test_a_topic_that_is_exchanged_under_a_step_is_planned_again(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """Found by the driver, when it plans the tasks, or by a task."""
    topic = create_topic(1)
    produce(bootstrap, topic, "old", 5)
    inner, calls = direct._tasks, 0

    def exchanging(options: Any) -> Any:
        nonlocal calls
        calls += 1
        planned = inner(options) if calls == 1 and when == "read" else None
        if calls == 1:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.delete_topics([topic])[topic].result(30)
            create_topic(1, name=topic)
            produce(bootstrap, topic, "new", 7)
        return planned or inner(options)

    monkeypatch.setattr(direct, "_tasks", exchanging)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), merge_bytes=0)
    report = archive(spark, job)
    assert calls == 2 and report.records == 7
    assert {bytes(row.value) for row in read_archive(spark, job.target).collect()} == {b"new"}
    assert not list((tmp_path / "archive").rglob("_task-*"))
    assert not (tmp_path / "archive/_staging").exists() or not any((tmp_path / "archive/_staging").iterdir())


def test_a_full_disk_is_told_and_leaves_nothing(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, "value", 5)
    target = tmp_path / "archive"
    job = Archive(Topics(bootstrap, topic), str(target), merge_bytes=0)
    table = open_table(spark, job.target, "parquet")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device", str(target))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(direct, "_write", lambda job, number: full(number))
        with pytest.raises(PySparkException, match="No space left on device"):
            archive(spark, job)
    assert table.position() == Position() and not list(target.rglob("*.parquet"))
    assert archive(spark, job).records == 5


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_step_whose_files_are_deleted_while_they_are_written_is_done_again(
    spark: SparkSession,
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_format: str,
) -> None:
    """By a user, or by another run that recovers."""
    pytest.importorskip({"delta": "deltalake"}.get(table_format, "pyspark"))
    topic, target, flag = create_topic(1), tmp_path / "archive", tmp_path / "deleted"
    produce(bootstrap, topic, "value", 5)
    staging = target / ("_staging" if table_format == "parquet" else "records/_staging")
    inner = direct._write

    def deleting(job: Any, number: int) -> Any:
        if not flag.exists():
            flag.touch()
            shutil.rmtree(staging)
        return inner(job, number)

    monkeypatch.setattr(direct, "_write", deleting)
    job = Archive(Topics(bootstrap, topic), str(target), table_format=table_format, merge_bytes=0)
    report = archive(spark, job)
    assert flag.exists() and (report.records, report.total) == (5, 5)
    assert verify(spark, Verify(job.target, bootstrap)).holds
