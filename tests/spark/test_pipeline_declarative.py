"""The example of Spark Declarative Pipelines runs as it stands, beside a broker of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer

from tidelog.testing import Broker

from .arrived import consume
from .conftest import CreateTopic

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
HOME = Path(pyspark.__file__).parent


@pytest.mark.timeout(900)
def test_the_example_feeds_tables_and_a_topic(
    tidelog_broker: Broker, create_topic: CreateTopic, tmp_path: Path
) -> None:
    bootstrap = tidelog_broker.bootstrap
    for topic in ("orders", "large-orders"):
        create_topic(2, name=topic, at=bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce("orders", json.dumps({"customer": f"c{number % 4}", "amount": number * 100}))
    producer.flush()
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("127.0.0.1:9092", bootstrap)
    spec.write_text(text.replace("file:///tmp/tidelog-declarative", f"file://{tmp_path}/storage"))

    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(HOME / "bin/spark-pipelines"), "run"]
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = consume(bootstrap, "large-orders")
    assert sorted(json.loads(one.value or b"{}")["amount"] for one in found) == [
        n * 100.0 for n in range(11, 20)
    ]
    assert {one.key for one in found} == {b"c0", b"c1", b"c2", b"c3"}
