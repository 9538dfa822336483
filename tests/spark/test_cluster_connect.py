"""An archive and its way back through Spark Connect: no session of this process, only a server."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from .arrived import consume
from .conftest import CreateTopic
from .processes import Pipeline

CONNECT = ("--remote", "local[2]")  # a server of its own, which ends with the client


@pytest.mark.timeout(900)
def test_an_archive_through_spark_connect(bootstrap: str, create_topic: CreateTopic, tmp_path: Path) -> None:
    source, target = create_topic(2), create_topic(2)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(500):
        producer.produce(source, key=str(number), value=str(number))
    assert producer.flush(60) == 0
    path = str(tmp_path / "archive")
    log = tmp_path / "connect.log"
    with Pipeline(["archive", source, "--to", path, "--bootstrap", bootstrap, *CONNECT], log) as archive:
        assert archive.result()["records"] == 500
    words = ["restore", path, "--topic", target, "--bootstrap", bootstrap, *CONNECT]
    with Pipeline(words, log) as restore:
        assert restore.result()["records"] == 500
    assert sorted(int(one.value or b"-1") for one in consume(bootstrap, target)) == list(range(500))
