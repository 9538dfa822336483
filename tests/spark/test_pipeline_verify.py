"""Archives compared with their topics: what is missing, changed, doubled or made up is found."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines import Archive, Decoding, Topics, Verify, VerifyReport, archive, verify
from tidelog.spark.pipelines.tables import TableError
from tidelog.spark.pipelines.upkeep import Compaction, compact
from tidelog.spark.pipelines.verify import facts

from .conftest import CreateTopic

RECORDS = 60


@pytest.fixture
def topic(bootstrap: str, create_topic: CreateTopic) -> str:
    """Two partitions; with headers, a null key, a null value and an aborted transaction."""
    name = create_topic(2)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        for number in range(RECORDS // 2):
            key = None if number == 3 else str(number)
            value = None if number == 4 else json.dumps({"id": number})
            producer.produce(name, value, key, partition=number % 2, headers=[("n", str(number))])
        producer.commit_transaction() if commits else producer.abort_transaction()
    return name


Check = Callable[[], VerifyReport]


@pytest.fixture
def target(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    archive(spark, Archive(Topics(bootstrap, topic), str(path)))
    return path


@pytest.fixture
def check(spark: SparkSession, bootstrap: str, target: Path) -> Check:
    return lambda: verify(spark, Verify(str(target), bootstrap))


def change(target: Path, edit: Callable[[pa.Table], pa.Table]) -> None:
    """Edit one data file of the archive."""
    path = min(target.glob("records/**/*.parquet"))
    pq.write_table(edit(pq.ParquetFile(path).read()), path, use_deprecated_int96_timestamps=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the file


def test_a_complete_archive_holds(
    spark: SparkSession, bootstrap: str, topic: str, target: Path, check: Check
) -> None:
    report = check()
    assert report.holds and report.covers_values, report.findings
    assert sum(one.compared for one in report.places) == RECORDS
    assert all(one.behind == 0 and one.uncompared == 0 for one in report.places)

    # What is deleted from the topic can no longer be compared, and what is new is not archived yet.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([TopicPartition(topic, 0, 10)])
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "new", partition=1)
    producer.flush()
    admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(30)
    report = check()
    assert report.holds, report.findings
    first, second = report.places
    assert (first.uncompared, first.missing_offsets, second.behind) == (10, 0, 1)
    assert "below 10" in first.note

    with pytest.raises(OptionError, match="nothing of nosuch"):
        verify(spark, Verify(str(target), bootstrap, ["nosuch"]))


def test_what_an_open_transaction_holds_back_is_told(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    """Committed records behind it cannot be archived, and nothing else would say so if it hangs."""
    topic, path = create_topic(1), str(tmp_path / "archive")
    open_one = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    open_one.init_transactions()
    open_one.begin_transaction()
    open_one.produce(topic, "open")
    open_one.flush()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "behind")
    producer.flush()
    report = archive(spark, Archive(Topics(bootstrap, topic), path))
    assert (report.records, report.lag, report.held_back) == (0, {topic: 0}, {topic: 2})
    (place,) = verify(spark, Verify(path, bootstrap)).places
    assert (place.behind, place.held_back) == (0, 2)
    open_one.abort_transaction()
    report = archive(spark, Archive(Topics(bootstrap, topic), path))
    assert (report.records, report.held_back) == (1, {})
    (place,) = verify(spark, Verify(path, bootstrap)).places
    assert (place.compared, place.held_back) == (1, 0)


def test_damage_to_an_archive_is_found(target: Path, check: Check) -> None:
    kept = pq.ParquetFile(min(target.glob("records/**/*.parquet"))).read()
    one = kept.slice(5, 1)
    others = pa.concat_tables([kept.slice(0, 5), kept.slice(6)])
    place = (one.column("partition")[0].as_py(), one.column("offset")[0].as_py())

    def with_value(column: str, value: object) -> pa.Table:
        index = one.schema.get_field_index(column)
        return one.set_column(index, one.schema.field(index), pa.array([value], one.schema.field(index).type))

    change(target, lambda _: others)
    report = check()
    assert report.counts == {"missing": 1}
    (found,) = report.findings
    assert (found.partition, found.offset) == place

    change(target, lambda _: pa.concat_tables([others, with_value("key", b"other")]))
    assert check().counts == {"differs": 1}

    change(target, lambda _: pa.concat_tables([kept, one]))
    assert check().counts == {"duplicate": 1}

    change(target, lambda _: pa.concat_tables([kept, with_value("offset", 1_000_000)]))
    assert check().counts == {"stray": 1}

    # The marker of a transaction has an offset and is no record.
    rows = zip(kept.column("partition").to_pylist(), kept.column("offset").to_pylist(), strict=True)
    taken = {offset for partition, offset in rows if partition == place[0]}
    free = next(offset for offset in range(max(taken)) if offset not in taken)
    change(target, lambda _: pa.concat_tables([kept, with_value("offset", free)]))
    assert check().counts == {"unknown": 1}


def test_undecodable_records_count_and_values_may_be_missing(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = str(tmp_path / "decoded")
    decoding = Decoding("json", "id int")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "no JSON", partition=0)
    producer.flush()
    report = archive(spark, Archive(Topics(bootstrap, topic), target, decoding, keeps_value=False))
    assert report.undecodable >= 1
    found = verify(spark, Verify(target, bootstrap))
    assert found.holds and not found.covers_values, found.findings
    assert sum(one.compared for one in found.places) == RECORDS + 1


def test_a_topic_that_was_created_again_is_another_one(
    spark: SparkSession, bootstrap: str, topic: str, target: Path, check: Check
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    report = check()
    assert report.holds, report.findings
    assert all(not one.exists and one.uncompared == RECORDS // 2 for one in report.places)


def test_a_comparison_is_begun_again_if_something_is_removed_meanwhile(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    target: Path,
    check: Check,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As retention and the merges of an archive that runs every five minutes do."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    inner, tries = facts.topic_rows, 0

    def removing(*given: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= changes:
            place = TopicPartition(topic, 0, tries)
            admin.delete_records([place])[place].result(30)
        return inner(*given)

    monkeypatch.setattr(facts, "topic_rows", removing)
    changes = 1
    report = check()
    assert report.holds and tries == 2
    assert report.places[0].uncompared == 1

    changes, tries = 1000, 1
    monkeypatch.setattr(sys.modules[VerifyReport.__module__], "_TRIES", 2)
    with pytest.raises(TableError, match="records of its topics were removed while they were read, 2 times"):
        check()
    monkeypatch.undo()

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "more", partition=0)
    producer.flush()
    archive(spark, Archive(Topics(bootstrap, topic), str(target), merge_bytes=0))
    of_archive = facts.parted

    def merging(*given: Any) -> Any:
        rows = of_archive(*given)
        compact(spark, Compaction(str(target)))
        return rows

    monkeypatch.setattr(facts, "parted", merging)
    assert check().holds
