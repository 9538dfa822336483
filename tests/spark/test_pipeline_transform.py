"""SQL from topics to topics and tables, from a file, exactly once; and files that make no sense."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tidelog.spark import OptionError
from tidelog.spark.pipelines.files import ParquetFiles
from tidelog.spark.pipelines.transform import transform
from tidelog.spark.pipelines.transform_file import parse_transform, read_transform

from .arrived import consume
from .conftest import CreateTopic

FILE = """\
-- sources:
--   orders:
--     topic: {source}
--     format: json
--     schema: "customer string, amount double"
-- output:
--   topic: {target}
--   key: customer
-- checkpoint: {checkpoint}
select customer, amount * 2 as twice, partition from orders where amount > 0
"""


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value)
    producer.flush()


def test_sql_from_a_topic_to_a_topic(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    source, target = create_topic(2), create_topic(3)
    file = tmp_path / "twice.sql"
    file.write_text(FILE.format(source=source, target=target, checkpoint=tmp_path / "state"))
    job = read_transform(str(file), bootstrap=bootstrap)
    produce(bootstrap, source, b'{"customer":"a","amount":1.5}', b"no json", b'{"customer":"b","amount":-1}')
    report = transform(spark, job)
    assert (report.rows, report.undecodable, report.stopped) == (3, {"orders": 1}, False)
    produce(bootstrap, source, b'{"customer":"c","amount":4}')
    assert transform(spark, job).rows == 1
    found = {one.key: json.loads(one.value or b"{}")["twice"] for one in consume(bootstrap, target)}
    assert found == {b"a": 3.0, b"c": 8.0}
    broken = spark.read.parquet(job.undecodable("orders")).collect()
    assert [(bytes(row.value), row.topic) for row in broken] == [(b"no json", source)]


def test_aggregates_go_to_a_table_once_they_are_final(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    source = create_topic(1)
    text = f"""
    sources:
      clicks: {{topic: {source}}}
    sql: select cast(value as string) as page, length(value) as size from clicks
    output: {{table: {tmp_path / "pages"}}}
    checkpoint: {tmp_path / "state"}
    """
    produce(bootstrap, source, b"a", b"bb", b"a")
    transform(spark, parse_transform(text, "pages.yaml", bootstrap=bootstrap))
    transform(spark, parse_transform(text, "pages.yaml", bootstrap=bootstrap))
    rows = spark.read.parquet(str(tmp_path / "pages")).collect()
    assert sorted((row.page, row.size) for row in rows) == [("a", 1), ("a", 1), ("bb", 2)]
    table = ParquetFiles(spark, str(tmp_path / "pages"), str(tmp_path / "state/query"))
    assert table.row_total() == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "is not valid YAML"),
        ("", "is empty"),
        ("sources: {}", "lacks 'sql'"),
        ("sources: {}\nsql: x\noutput: {topic: t}\ncheckpoint: c", "'sources' names no view"),
        ("tables: 1", "has no 'tables'; there are sources, sql"),
        (
            "sources: {a: {}}\nsql: x\noutput: {topic: t}\ncheckpoint: c",
            "sources.a needs a topic or a pattern",
        ),
        (
            "sources: {a: {topic: b, format: xml}}\nsql: x\noutput: {topic: t}\ncheckpoint: c",
            "allowed: json, avro",
        ),
        ("sources: {a: {topic: b}}\nsql: x\noutput: {}\ncheckpoint: c", "needs a topic or a table"),
        (
            "sources: {a: {topic: b}}\nsql: x\noutput: {topic: t, mode: now}\ncheckpoint: c",
            "allowed: append, update",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_transform(text, "job.yaml", bootstrap="127.0.0.1:1")
