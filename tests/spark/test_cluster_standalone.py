"""Topics to a table, and to topics, on a real Spark cluster, with an executor killed on the way."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from bench.standalone import running_standalone
from confluent_kafka import Producer
from pyarrow.dataset import dataset

from tidelog.spark.pipelines.tables.filesystem import LocalFiles
from tidelog.spark.pipelines.tables.log import Log

from .arrived import consume
from .conftest import CreateTopic
from .on_request import on_request
from .processes import Pipeline

RECORDS = 12_000
EXECUTOR = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1")


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=str(number))
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.timeout(900)
def test_an_archive_survives_an_executor(bootstrap: str, create_topic: CreateTopic, tmp_path: Path) -> None:
    count = 3000
    topic, target = create_topic(2), tmp_path / "archive"
    fill(bootstrap, topic, count)
    table = Log(LocalFiles(str(target)))
    with running_standalone(tmp_path) as cluster:
        words = ["archive", topic, "--to", str(target), "--bootstrap", bootstrap, "--rows-per-step", "250"]
        with Pipeline([*words, "--master", cluster.master, *EXECUTOR], tmp_path / "archive.log") as driver:
            driver.wait_until(lambda: table.last().number >= 2 and len(cluster.executors()) == 2)
            os.kill(cluster.executors()[0], signal.SIGKILL)
            done = table.last().totals.records
            report = driver.result()
    assert 0 < done < count and report["total"] == count
    files = [str(one) for one in target.glob("records/**/*.parquet")]
    values = dataset(files).to_table(["value"])["value"].to_pylist()
    assert Counter(map(int, values)) == Counter(range(count))


@on_request
@pytest.mark.timeout(900)
def test_a_transformation_survives_an_executor(
    bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    source, target = create_topic(4), create_topic(3)
    fill(bootstrap, source, RECORDS)
    file = tmp_path / "copy.yaml"
    file.write_text(
        f"""
        sources: {{numbers: {{topic: {source}, options: {{maxOffsetsPerTrigger: 1500}}}}}}
        sql: select value from numbers
        output: {{topic: {target}}}
        checkpoint: {tmp_path / "state"}
        """
    )
    commits = tmp_path / "state/query/commits"
    log = tmp_path / "transform.log"
    with running_standalone(tmp_path) as spark:
        words = ["transform", str(file), "--bootstrap", bootstrap, "--master", spark.master, *EXECUTOR]
        with Pipeline(words, log) as driver:
            driver.wait_until(lambda: len(list(commits.glob("[0-9]*"))) >= 2)
            victims = spark.executors()
            assert len(victims) == 2
            os.kill(victims[0], signal.SIGKILL)
            assert driver.result()["rows"] >= RECORDS - 3000
        assert consume(bootstrap, target)
    found = Counter(int(one.value or b"-1") for one in consume(bootstrap, target))
    assert found == Counter(range(RECORDS))
