"""A registry that others wrote: values written by columns, archived as its schemas evolve.

``TIDELOG_TEST_REGISTRY`` is its address; docs/testing.md says how to start one that keeps its data in
Tidelog.
"""

import json
import os
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.spark import to_tidelog
from tidelog.spark.pipelines import (
    Archive,
    Decoding,
    RegistrySettings,
    Topics,
    Verify,
    archive,
    read_archive,
    verify,
)

from .conftest import CreateTopic

URL = os.environ.get("TIDELOG_TEST_REGISTRY", "")
pytestmark = pytest.mark.skipif(not URL, reason="needs TIDELOG_TEST_REGISTRY, the address of a registry")


def avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID, PRICE = {"name": "id", "type": "long"}, {"name": "price", "type": "double"}
# Of each format two schemas, the second one with a field more.
SCHEMAS = {
    "confluent-avro": (
        avro(ID, PRICE),
        avro(ID, PRICE, {"name": "note", "type": ["null", "string"], "default": None}),
    ),
    "confluent-protobuf": (
        'syntax = "proto3"; message Order { int64 id = 1; double price = 2; }',
        'syntax = "proto3"; message Order { int64 id = 1; double price = 2; optional string note = 3; }',
    ),
    "confluent-json": tuple(
        json.dumps({"type": "object", "properties": properties})
        for properties in (
            {"id": {"type": "integer"}, "price": {"type": "number"}},
            {"id": {"type": "integer"}, "price": {"type": "number"}, "note": {"type": "string"}},
        )
    ),
}


@pytest.mark.parametrize("form", SCHEMAS)
def test_an_archive_follows_the_schemas_of_a_real_registry(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, form: str
) -> None:
    topic = create_topic(1, name=f"real-{uuid.uuid4().hex}")
    subject = f"{topic}-value"
    rows = spark.createDataFrame([(1, 0.5, "n")], "id long, price double, note string")

    def values(version: int, content: str) -> list[bytes]:
        column = to_tidelog("content", form, registry=URL, subject=subject, schema=SCHEMAS[form][version])
        found = rows.selectExpr(f"{content} as content").select(column.alias("value"))
        return [bytes(row.value) for row in found.collect()]

    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(*sent: bytes) -> None:
        for value in sent:
            producer.produce(topic, value=value)
        assert producer.flush(30) == 0

    def job() -> Archive:
        decoding = Decoding(form, registry=RegistrySettings.of(URL), subject=subject)
        return Archive(Topics(bootstrap, topic), str(tmp_path / "archive"), decoding)

    old = values(0, "named_struct('id', id, 'price', price)")
    unknown = b"\x00" + struct.pack(">I", 2**31 - 2) + old[0][5:]
    produce(*old, unknown, b"no id")
    report = archive(spark, job())
    assert (report.records, report.undecodable) == (1, 2)
    produce(*values(1, "named_struct('id', id + 1, 'price', price, 'note', note)"))
    report = archive(spark, job())
    assert (report.records, report.undecodable) == (1, 0)
    found = read_archive(spark, job().target).select("decoded.*").orderBy("id").collect()
    assert [(row.id, row.price, row.note) for row in found] == [(1, 0.5, None), (2, 0.5, "n")]
    assert verify(spark, Verify(job().target, bootstrap)).holds
