"""An archive and its way back through a Spark Connect server: the client has no JVM of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tidelog.lab.local.broker import free_port

from .arrived import consume
from .conftest import CreateTopic
from .on_request import on_request
from .processes import Pipeline, SparkServer

RECORDS = 3000


@contextmanager
def running_connect_server(directory: Path) -> Iterator[str]:
    """What ``--remote`` takes."""
    port = free_port()
    words = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=2",
        f"spark.sql.warehouse.dir={directory / 'warehouse'}",
    ):
        words += ["--conf", setting]
    server = SparkServer(
        "spark-submit", [*words, "--driver-memory", "768m"], directory / "connect-server.log"
    )
    try:
        server.wait_for_port(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()


@on_request
@pytest.mark.timeout(900)
def test_an_archive_through_spark_connect(bootstrap: str, create_topic: CreateTopic, tmp_path: Path) -> None:
    source, target = create_topic(2), create_topic(2)
    producer = Producer({"bootstrap.servers": bootstrap})

    def produce(numbers: range) -> None:
        for number in numbers:
            producer.produce(source, key=str(number), value=str(number))
        assert producer.flush(60) == 0

    path, log = str(tmp_path / "archive"), tmp_path / "client.log"
    with running_connect_server(tmp_path) as remote:
        for numbers in (range(RECORDS), range(RECORDS, RECORDS + 10)):  # the second goes on from the first
            produce(numbers)
            words = ["archive", source, "--to", path, "--bootstrap", bootstrap, "--remote", remote]
            with Pipeline([*words, "--option", "maxOffsetsPerTrigger=1000"], log) as archive:
                assert archive.result()["records"] == len(numbers)
        words = ["restore", path, "--topic", target, "--bootstrap", bootstrap, "--remote", remote]
        with Pipeline(words, log) as restore:
            assert restore.result()["records"] == RECORDS + 10
    found = sorted(int(one.value or b"-1") for one in consume(bootstrap, target))
    assert found == list(range(RECORDS + 10))
