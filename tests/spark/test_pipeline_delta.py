"""Archives as Delta tables: killed, resumed and counted from Delta's own log; and how it looks without Delta.

``TIDELOG_TEST_DELTA`` names a directory with the jars of a Delta that is made for the Spark installed here.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from tidelog.spark.pipelines import Archive, Topics, archive
from tidelog.spark.pipelines.delta import DeltaUnusable, misfits_explained

from .conftest import CreateTopic
from .processes import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 6_000
JARS = sorted(Path(os.environ.get("TIDELOG_TEST_DELTA", "/nowhere")).glob("delta-*.jar"))

with_delta = pytest.mark.skipif(
    not JARS, reason="TIDELOG_TEST_DELTA names no directory with Delta's jars for this version of Spark"
)


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        value = {"n": number} if number % 100 else {"n": "not a number"}
        producer.produce(topic, key=str(number), value=json.dumps(value))
        producer.poll(0)
    assert producer.flush(60) == 0


def versions(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("[0-9]*.json"))


def keys(table: Path) -> Counter[int]:
    """Of the files that the log says are there: what any reader of Delta sees."""
    files: set[str] = set()
    for version in versions(table):
        for action in map(json.loads, version.read_text().splitlines()):
            files -= {action["remove"]["path"]} if "remove" in action else set()
            files |= {action["add"]["path"]} if "add" in action else set()
    found: Counter[int] = Counter()
    for file in files:
        found.update(
            int(key) for key in pq.ParquetFile(table / unquote(file)).read(["key"])["key"].to_pylist()
        )
    return found


@with_delta
@pytest.mark.timeout(900)
def test_an_archive_in_delta_survives_its_driver(
    bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic, target, log = create_topic(2), tmp_path / "archive", tmp_path / "archive.log"
    fill(bootstrap, topic)
    words = ["archive", topic, "--to", str(target), "--bootstrap", bootstrap, "--delta"]
    words += ["--format", "json", "--schema", "n long", "--option", "maxOffsetsPerTrigger=1000"]
    words += ["--conf", f"spark.jars={','.join(map(str, JARS))}"]
    words += ["--conf", "spark.databricks.delta.snapshotPartitions=2"]

    with Pipeline(words, log) as driver:
        driver.wait_until(lambda: len(versions(target / "records")) >= 2)
        driver.kill()
    assert 0 < keys(target / "records").total() < RECORDS

    # As if it had died after Delta took the batch and before Spark noted that: the batch is run once more.
    last = max((target / "checkpoint/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)

    with Pipeline(words, log) as driver:
        report = driver.result()
    broken = Counter(range(0, RECORDS, 100))
    assert keys(target / "undecodable") == broken
    assert keys(target / "records") == Counter(range(RECORDS)) - broken
    assert report["total"] == RECORDS and not report["stopped"]
    assert 0 < report["records"] < RECORDS and report["merged_files"] > 0


def test_delta_without_its_jar_is_one_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    if JARS:
        pytest.skip("there is a Delta")
    job = Archive(Topics("127.0.0.1:1", "any"), str(tmp_path / "archive"), table_format="delta")
    with pytest.raises(DeltaUnusable, match=r"need Delta's jar for Spark 4\.\d+, .*delta-spark_4\.\d+_2\.13"):
        archive(spark, job)
    assert not list(tmp_path.iterdir())


def test_a_delta_for_another_spark_is_one_sentence(spark: "SparkSession") -> None:
    from pyspark.errors import PySparkRuntimeError

    said = "java.lang.NoSuchMethodError: 'void LogicalRDD.<init>()' at org.apache.spark.sql.delta.Snapshot"
    with pytest.raises(DeltaUnusable, match="does not fit Spark"), misfits_explained(spark):
        raise PySparkRuntimeError(said)
    with pytest.raises(PySparkRuntimeError, match="delta is full"), misfits_explained(spark):
        raise PySparkRuntimeError("the disk of delta is full")
