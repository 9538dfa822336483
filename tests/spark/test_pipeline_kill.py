"""kill -9 of the driver and of a broker in the middle of archive and transform, then resumed and counted."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.cli.pipeline.run_page import runs_of
from tidelog.spark.pipelines.tables import Totals
from tidelog.spark.pipelines.tables.filesystem import LocalFiles
from tidelog.spark.pipelines.tables.log import Log
from tidelog.testing import Cluster

from .arrived import consume
from .on_request import on_request
from .processes import Pipeline

RECORDS = 6_000
IN_STEPS = ("--option", "maxOffsetsPerTrigger=1000")


def create(cluster: Cluster, *names: str) -> None:
    """Asked again where a controller that is replaced cannot say whether the topic was made."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name in names:
        cluster.wait_for(partial(created, admin, name), f"{name} was not created")


def created(admin: AdminClient, name: str) -> bool:
    try:
        admin.create_topics([NewTopic(name, 3, 3)])[name].result(30)
    except KafkaException as error:
        return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
    return True


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, key=str(number), value=json.dumps({"n": number}))
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.timeout(900)
def test_an_archive_survives_its_driver_and_a_broker(tidelog_cluster: Cluster, tmp_path: Path) -> None:
    cluster, target = tidelog_cluster, str(tmp_path / "archive")
    create(cluster, "in")
    produce(cluster, "in", range(RECORDS))
    words = ["archive", "in", "--to", target, "--bootstrap", cluster.bootstrap]
    table = Log(LocalFiles(target))
    log, page = tmp_path / "archive.log", tmp_path / "archive.html"
    words += ["--page", str(page)]

    def totals() -> Totals:
        return table.last().totals

    with Pipeline([*words, *IN_STEPS], log) as driver:
        driver.wait_until(lambda: table.last().number >= 2)
        driver.kill()
    assert 0 < totals().records < RECORDS

    with Pipeline([*words, *IN_STEPS], log) as driver:
        seen = totals().records
        driver.wait_until(lambda: totals().records > seen)
        leader = cluster.leader_of("in", 0)
        leader.kill()
        report = driver.result()
    leader.start()
    assert report["total"] == RECORDS and not report["stopped"]
    # A killed run cannot add itself.
    assert [(one["outcome"], one["records"]) for one in runs_of(page)] == [("done", report["records"])]
    keys = Counter(
        ds.dataset(list(map(str, Path(target, "records").rglob("*.parquet"))))
        .to_table(["key"])["key"]
        .to_pylist()
    )
    assert keys == Counter(str(number).encode() for number in range(RECORDS))


@on_request
@pytest.mark.timeout(900)
def test_a_transformation_survives_its_driver_and_a_broker(tidelog_cluster: Cluster, tmp_path: Path) -> None:
    cluster = tidelog_cluster
    create(cluster, "in", "out")
    produce(cluster, "in", range(RECORDS))
    file = tmp_path / "double.yaml"
    file.write_text(
        f"""
        sources:
          numbers: {{topic: in, format: json, schema: "n long", options: {{maxOffsetsPerTrigger: 1000}}}}
        sql: select n, n * 2 as twice from numbers
        output: {{topic: out, key: n}}
        checkpoint: {tmp_path / "state"}
        """
    )
    words = ["transform", str(file), "--bootstrap", cluster.bootstrap]
    commits = tmp_path / "state/query/commits"
    log = tmp_path / "transform.log"

    def batches() -> int:
        return len(list(commits.glob("[0-9]*")))

    with Pipeline(words, log) as driver:
        driver.wait_until(lambda: batches() >= 2)
        driver.kill()
    assert 0 < len(consume(cluster.bootstrap, "out")) < RECORDS

    with Pipeline(words, log) as driver:
        seen = batches()
        driver.wait_until(lambda: batches() > seen)
        leader = cluster.leader_of("out", 0)
        leader.kill()
        report = driver.result()
    assert not report["stopped"]
    leader.start()
    cluster.await_in_sync("in", "out")
    found = Counter(json.loads(one.value or b"{}")["twice"] for one in consume(cluster.bootstrap, "out"))
    assert found == Counter(2 * number for number in range(RECORDS))
