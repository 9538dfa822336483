"""DataFrames written by Spark itself, batch and streaming, and queries that die and go on."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .arrived import consume
from .conftest import CreateTopic


def numbered(spark: SparkSession, count: int, tasks: int = 3) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as string) key", "concat('v', id) value")


def input_file(directory: Path, name: str, numbers: range) -> None:
    """A file that a stream finds whole or not at all."""
    aside = directory.parent / name
    aside.write_text("".join(json.dumps({"value": str(number)}) + "\n" for number in numbers))
    aside.rename(directory / name)


def numbers(bootstrap: str, topic: str) -> Counter[int]:
    return Counter(int(one.value or b"-1") for one in consume(bootstrap, topic))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_dataframe_is_written(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, guarantee: str
) -> None:
    topic = create_topic(4)
    (
        numbered(spark, 5000)
        .write.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("deliveryGuarantee", guarantee)
        .mode("append")
        .save()
    )
    found = consume(bootstrap, topic)
    assert {(one.key or b"").decode() for one in found} == {str(number) for number in range(5000)}
    assert all(one.value == b"v" + (one.key or b"") for one in found) and len(found) == 5000


def test_a_failed_job_leaves_nothing_behind_when_exactly_once(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(2)
    broken = numbered(spark, 20_000, 2).selectExpr("if(key = '19999', raise_error('broken'), value) value")
    with pytest.raises(PySparkException, match="broken"):
        (
            broken.write.format("tidelog")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("deliveryGuarantee", "exactly-once")
            .mode("append")
            .save()
        )
    assert consume(bootstrap, topic) == []


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, checkpoint: str
) -> None:
    topic = create_topic(3)
    source = tmp_path / "in"
    source.mkdir()
    stream = (
        spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).json(str(source))
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )  # fmt: skip
    input_file(source, "1.json", range(100))
    input_file(source, "2.json", range(100, 250))
    query = stream.start()
    query.awaitTermination()
    assert numbers(bootstrap, topic) == Counter(range(250))

    # As after a crash between the sink's commit and Spark's note of it: the last batch runs again.
    commits = sorted((Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    input_file(source, "3.json", range(250, 300))
    stream.start().awaitTermination()
    assert numbers(bootstrap, topic) == Counter(range(300))
