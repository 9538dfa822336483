"""Topics to tables and back: every record once, whatever happened in between."""

import datetime
import io
import json
import shutil
from collections import Counter
from pathlib import Path
from threading import Event

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.spark import OptionError
from tidelog.spark.pipelines import (
    Archive,
    Compaction,
    Decoding,
    Restore,
    Topics,
    archive,
    compact,
    read_archive,
    restore,
)
from tidelog.spark.pipelines.tables.opening import open_table

from .arrived import Message, consume
from .conftest import CreateTopic


def produce(bootstrap: str, topic: str, values: list[bytes | None], partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            key=str(number),
            value=value,
            partition=number % partitions,
            headers=[("n", str(number).encode())] if number % 3 else None,
        )
    producer.flush()


def content(message: Message) -> tuple[object, ...]:
    return message[:1] + message[2:4] + (tuple(message.headers), message.timestamp_ms)


def undecodable_columns(spark: SparkSession, target: str) -> list[str]:
    found = open_table(spark, target, "parquet").read_undecodable()
    assert found is not None
    return found.columns


def test_an_archive_is_brought_up_to_date_and_restored(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, other = create_topic(2), create_topic(2)
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), merge_bytes=0)
    produce(bootstrap, topic, [str(number).encode() for number in range(500)])
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")  # the archive's days are those of UTC
    try:
        first = archive(spark, job)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (first.records, first.total, first.stopped) == (500, 500, False)
    assert read_archive(spark, job.target).where("date <> to_date(timestamp)").count() == 0
    produce(bootstrap, topic, [None, b"", b"last"])
    assert archive(spark, job).records == 3

    merged = compact(spark, Compaction(job.target, 1 << 20))
    again = archive(spark, job)
    assert (again.records, again.total) == (0, 503)
    files = sorted((tmp_path / "archive/records").rglob("*.parquet"))
    assert merged.removed_files > merged.added_files and again.files == len(files)
    assert again.total_bytes == sum(file.stat().st_size for file in files)
    assert read_archive(spark, job.target).count() == 503

    report = restore(spark, Restore(job.target, bootstrap, topic=other))
    assert (report.records, report.topics) == (503, [other])
    assert [content(one) for one in consume(bootstrap, other)] == [
        content(one) for one in consume(bootstrap, topic)
    ]
    with pytest.raises(OptionError, match="has no records where partition = 9"):
        restore(spark, Restore(job.target, bootstrap, where="partition = 9"))


def test_an_archive_stops_on_request_and_goes_on_later(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(2)
    produce(bootstrap, topic, [str(number).encode() for number in range(400)])
    few = Topics(bootstrap, topic, options={"maxOffsetsPerTrigger": "50"})
    job = Archive(few, str(tmp_path / "archive"), merge_bytes=0)
    stop = Event()
    first = archive(spark, job, stop=stop, tell=lambda progress: stop.set())
    assert first.stopped and 0 < first.records < 400
    second = archive(spark, Archive(Topics(bootstrap, topic), job.target, merge_bytes=0))
    assert not second.stopped and first.records + second.records == second.total == 400
    found = read_archive(spark, job.target).select("value").collect()
    assert sorted(int(bytes(row.value)) for row in found) == list(range(400))


def test_what_cannot_be_decoded_is_kept_apart_and_counted(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(2)
    good = [json.dumps({"id": number, "name": f"n{number}", "more": True}).encode() for number in range(20)]
    broken: list[bytes | None] = [b"{", b"\xff\xfe", b'{"id": "x"}']
    produce(bootstrap, topic, [*good, *broken, None])
    decoding = Decoding("json", "id int, name string")
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), decoding)
    report = archive(spark, job)
    assert (report.records, report.undecodable) == (21, 3)
    rows = (
        read_archive(spark, job.target)
        .where("value is not null")
        .select("decoded.id", "decoded.name", "value")
    )
    assert Counter((row.id, row.name) for row in rows.collect()) == Counter((n, f"n{n}") for n in range(20))
    apart = spark.read.parquet(job.undecodable).select("value").collect()
    assert sorted(bytes(row.value) for row in apart) == sorted(one for one in broken if one is not None)


def test_avro_becomes_columns(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(2)
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "parts", "type": {"type": "array", "items": "bytes"}},
        ],
    }
    moment = datetime.datetime(2026, 5, 17, 12, 30, tzinfo=datetime.UTC)
    values: list[bytes | None] = [b"\x80", None]
    for number in range(10):
        out = io.BytesIO()
        note = None if number % 2 else f"n{number}"
        order = {"id": number, "note": note, "at": moment, "parts": [b"\x00\xff"]}
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), order)
        values.append(b"\x00\x00\x00\x00\x07" + out.getvalue())
    produce(bootstrap, topic, values)
    decoding = Decoding("confluent-avro", json.dumps(schema), ids=(7,))
    job = Archive(
        Topics(bootstrap, topic), str(tmp_path / "archive"), decoding, keeps_value=False, merge_bytes=0
    )
    report = archive(spark, job)
    assert (report.records, report.undecodable) == (11, 1)
    rows = read_archive(spark, job.target).where("decoded is not null").selectExpr("decoded.*").collect()
    assert {(row.id, row.note) for row in rows} == {(n, None if n % 2 else f"n{n}") for n in range(10)}
    assert all(bytes(row.parts[0]) == b"\x00\xff" for row in rows)
    assert (
        spark.read.parquet(job.records).where("decoded.at = timestamp '2026-05-17 12:30:00Z'").count() == 10
    )
    assert "decoded" not in undecodable_columns(spark, job.target)

    # Without its log, it still has no values.
    shutil.rmtree(tmp_path / "archive/_log")
    produce(bootstrap, topic, values[-1:])
    assert archive(spark, job).total == 13
    assert "value" not in read_archive(spark, job.target).columns
    assert "decoded" not in undecodable_columns(spark, job.target)
