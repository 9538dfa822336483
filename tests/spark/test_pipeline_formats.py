"""Archives as Iceberg and Delta tables, written by Spark: interrupted, overlapping, with new fields,
compacted and expired; then every record is there once, for Spark and for other readers.
"""

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tidelog.spark import OptionError
from tidelog.spark.pipelines import Archive, Decoding, Topics, Verify, archive, read_archive, verify
from tidelog.spark.pipelines.tables import Place, Position, Span, TableError
from tidelog.spark.pipelines.tables.opening import open_existing, open_table
from tidelog.spark.pipelines.tables.two_tables import TwoTables
from tidelog.spark.pipelines.upkeep import Compaction, Expiry, compact, expire

from .arrived import consume
from .conftest import CreateTopic
from .on_request import on_request
from .processes import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
BROKEN_EVERY = 25


def fill(bootstrap: str, topic: str, numbers: range, **fields: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        value = {"n": "none" if number % BROKEN_EVERY == 0 else number, **fields}
        producer.produce(topic, key=str(number), value=json.dumps(value), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def is_broken(number: int) -> bool:
    return number % BROKEN_EVERY == 0


def keys_elsewhere(target: Path, table_format: str, part: str) -> Counter[int]:
    """As readers that are not Spark see the table."""
    if table_format == "iceberg":
        from pyiceberg.table import StaticTable

        found = StaticTable.from_metadata(f"{target}/{part}").scan().to_arrow()
    else:
        from deltalake import DeltaTable

        found = pa.table(DeltaTable(f"{target}/{part}").to_pyarrow_table())
    return Counter(int(key) for key in found["key"].to_pylist())


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_every_record_is_in_the_table_once(
    spark: "SparkSession",
    bootstrap: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    table_format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyiceberg" if table_format == "iceberg" else "deltalake")
    topic, target = create_topic(PARTITIONS), tmp_path / "archive"
    fill(bootstrap, topic, range(200))

    def job(schema: str, rows: int = 1000) -> Archive:
        return Archive(
            Topics(bootstrap, topic),
            str(target),
            Decoding("json", schema),
            table_format=table_format,
            merge_bytes=0,
            rows_per_step=rows,
        )

    table = opened_for(spark, job("n long"))
    inner = type(table._records).commit
    calls = 0

    def interrupted(self: Any, *args: Any, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        inner(self, *args, **more)

    # Killed between the commits of the two tables.
    monkeypatch.setattr(type(table._records), "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archive(spark, job("n long", rows=120))
    first = open_existing(spark, str(target)).totals()
    assert (first.records + first.undecodable, first.undecodable > 0) == (120, True)
    assert not keys_elsewhere(target, table_format, "undecodable")
    # The next run completes that, and is killed after Spark wrote the files of a step, before the commit.
    calls = 0
    with pytest.raises(KeyboardInterrupt):
        archive(spark, job("n long", rows=120))
    second = open_existing(spark, str(target)).totals()
    assert (second.records, second.undecodable) == (first.records, first.undecodable)
    assert keys_elsewhere(target, table_format, "undecodable").total() == first.undecodable
    monkeypatch.setattr(type(table._records), "commit", inner)

    # A second run adds everything while the first one is about to commit: the first one adds nothing.
    overlapping: list[int] = []

    def overtaken(self: Any, *args: Any, **more: Any) -> None:
        monkeypatch.setattr(type(table._records), "commit", inner)
        overlapping.append(archive(spark, job("n long")).records)
        inner(self, *args, **more)

    monkeypatch.setattr(type(table._records), "commit", overtaken)
    report = archive(spark, job("n long"))
    assert overlapping[0] > 0 and report.records == 0 and report.total == 200

    # A new field; a run that does not know it keeps it.
    fill(bootstrap, topic, range(200, 260), name="x")
    assert archive(spark, job("n long, name string")).total == 260
    fill(bootstrap, topic, range(260, 270))
    assert archive(spark, job("n long")).total == 270
    named = read_archive(spark, str(target)).where("decoded.name = 'x'").selectExpr("decoded.n").collect()
    assert sorted(row.n for row in named) == [n for n in range(200, 260) if not is_broken(n)]

    before = open_existing(spark, str(target)).totals()
    merged = compact(spark, Compaction(str(target)))
    assert merged.files < before.files and merged.removed_files > merged.added_files
    assert expire(spark, Expiry(str(target), "0 seconds")).removed_files > 0
    assert archive(spark, job("n long")).records == 0

    rows = read_archive(spark, str(target)).select("key", "topic", "date", "topicId").collect()
    assert {(row.topic, row.topicId is not None) for row in rows} == {(topic, True)}
    apart = open_existing(spark, str(target)).read_undecodable()
    assert apart is not None
    broken = Counter(n for n in range(270) if is_broken(n))
    assert Counter(int(bytes(row.key)) for row in rows) == Counter(range(270)) - broken
    assert Counter(int(bytes(row.key)) for row in apart.select("key").collect()) == broken
    assert keys_elsewhere(target, table_format, "records") == Counter(range(270)) - broken
    assert keys_elsewhere(target, table_format, "undecodable") == broken


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_dead_letters_and_verification_of_each_format(
    spark: "SparkSession", bootstrap: str, create_topic: CreateTopic, tmp_path: Path, table_format: str
) -> None:
    pytest.importorskip("pyiceberg" if table_format == "iceberg" else "deltalake")
    topic, target = create_topic(PARTITIONS), str(tmp_path / "archive")
    fill(bootstrap, topic, range(60))
    job = Archive(
        Topics(bootstrap, topic),
        target,
        Decoding("json", "n long"),
        table_format=table_format,
        merge_bytes=0,
        dead_letter=f"{topic}-dead",
    )
    report = archive(spark, job)
    assert (report.total, report.undecodable, report.dead_letters) == (60, 3, 3)
    assert sorted(int(one.key or b"") for one in consume(bootstrap, f"{topic}-dead")) == [0, 25, 50]
    assert verify(spark, Verify(target, bootstrap)).holds
    fill(bootstrap, topic, range(60, 70))
    told = verify(spark, Verify(target, bootstrap))
    assert told.holds and sum(place.records for place in told.places) == 60
    assert sum(place.behind for place in told.places) == 10
    # Somebody deletes a file of the table: what is left is compared, and the rest is named.
    gone = next(Path(target, "records").rglob("*.parquet"))
    rows = pq.read_metadata(gone).num_rows
    gone.unlink()
    told = verify(spark, Verify(target, bootstrap))
    assert rows > 0 and told.counts == {"missing": rows}


def opened_for(spark: "SparkSession", job: Archive) -> TwoTables:
    table = open_table(spark, job.target, job.table_format)
    assert isinstance(table, TwoTables)
    return table


def test_options_of_other_formats_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("deltalake")

    def refused(table_format: str, target: str, **options: str) -> str:
        job = Archive(Topics("127.0.0.1:1", "any"), target, table_format=table_format, table_options=options)
        with pytest.raises(Exception) as failure:
            archive(spark, job)
        assert type(failure.value).__module__.startswith("tidelog."), failure.value
        return str(failure.value)

    here = str(tmp_path)
    assert "A Parquet archive has no option partition-by" in refused(
        "parquet", here, **{"partition-by": "month"}
    )
    assert "use --partition-by day" in refused("delta", here, **{"partition-by": "month"})
    assert "allowed: hour, day, month, year" in refused("iceberg", here, **{"partition-by": "week"})
    for table_format in ("iceberg", "delta"):
        assert "Only a Parquet archive has a lock" in refused(table_format, here, **{"break-lock": "true"})
    assert "name the catalog with --catalog" in refused("iceberg", here, uri="http://127.0.0.1:1")
    assert "needs a catalog" in refused("iceberg", "s3a://bucket/orders")
    assert "cannot be opened" in refused("iceberg", "raw.orders", catalog="nosuch")
    with pytest.raises(OptionError, match="allowed: parquet, iceberg, delta"):
        Archive(Topics("127.0.0.1:1", "any"), here, table_format="orc")
    assert not list(tmp_path.iterdir())
    (tmp_path / "records/_delta_log").mkdir(parents=True)
    assert "is an archive of the format delta: use --table-format delta" in refused("parquet", here)
    assert "is an archive of the format delta" in refused("iceberg", here)


@on_request
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_an_archive_survives_its_driver_and_is_kept_up_by_commands(
    bootstrap: str, create_topic: CreateTopic, tmp_path: Path, table_format: str
) -> None:
    topic, target, log = create_topic(PARTITIONS), tmp_path / "archive", tmp_path / "archive.log"
    fill(bootstrap, topic, range(6000))
    words = ["archive", topic, "--to", str(target), "--bootstrap", bootstrap, "--table-format", table_format]
    words += ["--format", "json", "--schema", "n long", "--rows-per-step", "500"]
    metadata = target / "records" / ("metadata" if table_format == "iceberg" else "_delta_log")

    with Pipeline(words, log) as driver:
        driver.wait_until(lambda: len(list(metadata.glob("*.json"))) >= 6)
        driver.kill()
    with Pipeline(words, log) as driver:
        report = driver.result()
    broken = Counter(n for n in range(6000) if is_broken(n))
    assert keys_elsewhere(target, table_format, "records") == Counter(range(6000)) - broken
    assert keys_elsewhere(target, table_format, "undecodable") == broken
    assert report["total"] == 6000 and 0 < report["records"] < 6000 - broken.total()
    with Pipeline(["compact", str(target)], log) as command:
        assert command.result()["records"] == 6000 - broken.total()
    with Pipeline(["expire", str(target), "--older-than", "0 seconds"], log) as command:
        assert command.result()["removed_files"] > 0
    assert keys_elsewhere(target, table_format, "records") == Counter(range(6000)) - broken


def test_a_delta_archive_of_an_earlier_version_is_taken_over(spark: "SparkSession", tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    target = str(tmp_path / "archive")

    def batch(part: str, number: int, *offsets: int) -> None:
        """As a stream wrote it with Delta's jar."""
        path = f"{target}/{part}"
        count = len(offsets)
        rows = {"topic": ["orders"] * count, "partition": pa.array([1] * count, pa.int32())}
        rows |= {"offset": pa.array(offsets, pa.int64()), "date": [datetime.date(2026, 5, 17)] * count}
        done = deltalake.Transaction(f"tidelog-archive-{target}/checkpoint-{path}", number)
        deltalake.write_deltalake(
            path,
            pa.table(rows),
            mode="append",
            partition_by=["topic", "date"],
            commit_properties=deltalake.CommitProperties(app_transactions=[done]),
        )

    def prepared() -> TwoTables:
        table = open_table(spark, target, "delta")
        assert isinstance(table, TwoTables)
        table.prepare(notes.append)
        return table

    notes: list[str] = []
    batch("undecodable", 0, 7)
    batch("records", 0, 3, 4, 5, 6)
    batch("undecodable", 1, 8)
    with pytest.raises(TableError, match="its last batch is not complete"):
        prepared()  # killed before the records of this batch were there
    batch("records", 1, 9)
    assert prepared().position() == Position({Place("orders", "", 1): Span(3, 10)})
    assert prepared().totals().records == 5
    assert len(notes) == 1 and "made by an earlier version" in notes[0]
