"""Archives compared with their topics: what is missing, changed, doubled or made up is found."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines import Archive, Decoding, Topics, Verify, VerifyReport, archive, verify

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
    pq.write_table(edit(pq.ParquetFile(path).read()), path)
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


def test_damage_to_an_archive_is_found(target: Path, check: Check) -> None:
    kept = pq.ParquetFile(min(target.glob("records/**/*.parquet"))).read()
    partition = kept.column("partition")[0].as_py()
    offset = kept.column("offset")[5].as_py()

    change(target, lambda rows: rows.filter(pc.not_equal(rows.column("offset"), offset)))
    report = check()
    assert report.counts == {"missing": 1}
    (found,) = report.findings
    assert (found.partition, found.offset) == (partition, offset)

    def with_other_key(rows: pa.Table) -> pa.Table:
        keys = [b"other" if at == offset else key for at, key in zip(*values(rows), strict=True)]
        return rows.set_column(rows.schema.get_field_index("key"), "key", pa.array(keys, pa.binary()))

    def values(rows: pa.Table) -> tuple[list[int], list[bytes]]:
        return rows.column("offset").to_pylist(), rows.column("key").to_pylist()

    change(target, lambda _: with_other_key(kept))
    assert check().counts == {"differs": 1}

    change(target, lambda _: pa.concat_tables([kept, kept.slice(5, 1)]))
    assert check().counts == {"duplicate": 1}

    def moved(to: int) -> pa.Table:
        row = kept.slice(5, 1)
        return row.set_column(row.schema.get_field_index("offset"), "offset", pa.array([to], pa.int64()))

    change(target, lambda _: pa.concat_tables([kept, moved(1_000_000)]))
    assert check().counts == {"stray": 1}
    # The marker of the aborted transaction has an offset and is no record.
    taken = set(kept.column("offset").to_pylist())
    free = next(at for at in range(max(taken)) if at not in taken)
    change(target, lambda _: pa.concat_tables([kept, moved(free)]))
    assert check().counts == {"unknown": 1}

    change(target, lambda _: kept)
    assert check().holds


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
