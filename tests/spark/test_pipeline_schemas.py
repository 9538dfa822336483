"""Values with schemas in pipelines and as columns, with a registry and without."""

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession, functions

from tidelog.cli.pipeline.errors import reason
from tidelog.spark import OptionError, from_tidelog, to_tidelog
from tidelog.spark.pipelines import (
    Archive,
    Decoding,
    RegistrySettings,
    Topics,
    archive,
    read_archive,
    read_transform,
    transform,
)
from tidelog.spark.pipelines.decoding import split

from .arrived import consume
from .conftest import CreateTopic
from .registry_server import RegistryServer, running_registry


def order(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields]}


OLD = order(("id", "long"), ("price", "double"))
NEW = order(("note", ["null", "string"]), ("id", "long"), ("price", "double"))
NEW["fields"][0]["default"] = None
OTHER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running_registry() as running:
        yield running


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00" + struct.pack(">I", number) + out.getvalue()


def produce(bootstrap: str, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    producer.flush()


def test_an_archive_follows_the_schema_of_each_record(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, registry: RegistryServer, tmp_path: Path
) -> None:
    topic = create_topic(1)
    old, other = registry.add(f"{topic}-value", OLD), registry.add("customers-value", OTHER)
    new = registry.add(f"{topic}-value", NEW)
    bad: list[bytes | None] = [
        framed(other, OTHER, {"name": "x"}),
        framed(99, OLD, {"id": 3, "price": 0.0}),
        b"12345" + framed(old, OLD, {"id": 4, "price": 0.0})[5:],
    ]
    good: list[bytes | None] = [
        framed(old, OLD, {"id": 1, "price": 1.5}),
        framed(new, NEW, {"note": "n", "id": 2, "price": 2.5}),
        None,
    ]
    produce(bootstrap, topic, [*good, *bad])
    settings = RegistrySettings.of(registry.url)
    decoding = Decoding("confluent-avro", registry=settings, subject=f"{topic}-value")
    job = Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), decoding)
    report = archive(spark, job)
    assert (report.records, report.undecodable) == (3, 3)
    rows = read_archive(spark, job.target).where("decoded is not null").select("decoded.*").collect()
    assert {(row.note, row.id, row.price) for row in rows} == {(None, 1, 1.5), ("n", 2, 2.5)}
    apart = spark.read.parquet(job.undecodable).select("value").collect()
    assert sorted(bytes(row.value) for row in apart) == sorted(one for one in bad if one is not None)


def test_a_registry_that_is_down_is_an_error_in_one_sentence(
    spark: SparkSession, registry: RegistryServer
) -> None:
    number = registry.add("s", OLD)
    settings = RegistrySettings.of(registry.url, {"max.retries": "0"})
    values = spark.createDataFrame([(framed(number, OLD, {"id": 1, "price": 0.0}),)], "value binary")
    _, broken = split(Decoding("confluent-avro", json.dumps(NEW), settings).apply(values))
    registry.fails = 1_000_000
    with pytest.raises(Exception, match="schema registry") as failed:
        broken.count()
    assert reason(str(failed.value)).startswith(
        f"The schema registry at {registry.url} does not answer (Forwarding to the leader failed)"
    )
    with pytest.raises(OptionError, match="does not answer"):
        from_tidelog("value", registry=registry.url, subject="s", registry_options={"max.retries": "0"})


JSON_VALUES = {
    '{"id": 1}': True,
    ' {"id": 1, "more": [{}]}\n': True,
    '{"id": null}': True,
    '{"price": NaN}': True,
    '{"id": 1} x': False,
    '{"id": 1} {}': False,
    '{"id": 1}} x': False,
    '{"id": 1}] x': False,
    '{"id": 1}, {"id": 2}': False,
    '{"id": 1}, "v": {"id": 2}': False,
    '{"id": 1},': False,
    '""': False,
    "": False,
    "   ": False,
    "null": False,
    "[]": False,
    '[{"id": 1}]': False,
    "5": False,
    '{"id": "x"}': False,
    '{"inner": {"a": "x"}}': False,
    "{": False,
}


def test_json_is_one_object_and_nothing_else(spark: SparkSession) -> None:
    values = spark.createDataFrame([(text,) for text in (*JSON_VALUES, None)], "text string")
    decoding = Decoding("json", "id long, price double, inner struct<a:int>,")
    good, broken = split(decoding.apply(values.selectExpr("text", "cast(text as binary) as value")))
    assert {row.text for row in broken.collect()} == {text for text, fits in JSON_VALUES.items() if not fits}
    rows = {row.text: row.decoded for row in good.collect()}
    assert rows.keys() == {None, *(text for text, fits in JSON_VALUES.items() if fits)}
    assert rows[None] is None and (rows['{"id": 1}'].id, rows['{"id": 1}'].price) == (1, None)


def test_columns_are_written_and_read_with_schemas(spark: SparkSession, registry: RegistryServer) -> None:
    rows = spark.range(3).selectExpr("named_struct('id', id, 'price', id / 2, 'note', 'n') as content")
    schema = order(("id", "long"), ("price", ["null", "double"]), ("note", "string"))
    at: dict[str, Any] = {"registry": registry.url, "subject": "s"}
    values = rows.select(to_tidelog("content", schema=json.dumps(schema), **at).alias("value")).cache()
    assert registry.subjects == {"s": [1]}
    assert {bytes(row.value)[:5] for row in values.collect()} == {b"\x00\x00\x00\x00\x01"}
    content = values.select(from_tidelog("value", **at).alias("content"))
    assert content.schema["content"].dataType.simpleString() == "struct<id:bigint,price:double,note:string>"
    assert sorted(tuple(row.content) for row in content.collect()) == [
        (0, 0.0, "n"),
        (1, 0.5, "n"),
        (2, 1.0, "n"),
    ]
    damaged = values.select(functions.expr("substring(value, 1, 7)").alias("value"))
    lenient = damaged.select(from_tidelog("value", mode="permissive", **at).alias("content"))
    assert [row.content for row in lenient.collect()] == [None] * 3
    with pytest.raises(Exception, match="values do not match the schema; use mode PERMISSIVE"):
        damaged.select(from_tidelog("value", **at)).collect()
    with pytest.raises(OptionError, match="allowed: FAILFAST, PERMISSIVE"):
        from_tidelog("value", mode="lazy", **at)


TRANSFORM = """
sources:
  orders: {{topic: {source}, format: confluent-avro, registry: "{url}"}}
sql: select id, price * 2 as double_price from orders
output:
  topic: {target}
  key: id
  format: confluent-avro
  registry: "{url}"
  schema: '{schema}'
checkpoint: {checkpoint}
"""


def test_a_transformation_reads_and_writes_with_schemas(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, registry: RegistryServer, tmp_path: Path
) -> None:
    source, target = create_topic(1), create_topic(1)
    number = registry.add(f"{source}-value", OLD)
    produce(bootstrap, source, [framed(number, OLD, {"id": 7, "price": 1.5}), b"\x00"])
    out = order(("id", ["null", "long"]), ("double_price", ["null", "double"]))
    file = tmp_path / "job.yaml"
    file.write_text(
        TRANSFORM.format(
            source=source,
            target=target,
            url=registry.url,
            schema=json.dumps(out),
            checkpoint=tmp_path / "state",
        )
    )
    report = transform(spark, read_transform(str(file), bootstrap=bootstrap))
    assert report.undecodable == {"orders": 1}
    (message,) = consume(bootstrap, target)
    (written,) = registry.subjects[f"{target}-value"]
    assert (message.key, message.value) == (b"7", framed(written, out, {"id": 7, "double_price": 3.0}))
