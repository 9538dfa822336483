"""One Spark session and one broker for all Spark tests: a session takes seconds to start.

Tests that kill brokers take ``tidelog_cluster`` of their own; tests that kill Spark start it in a process.
``TIDELOG_TEST_KAFKA``, a directory of Apache Kafka's jars, makes the shared broker a Kafka.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing import Broker, running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKER_SETTINGS = {"log.retention.check.interval.ms": 500, "log.cleaner.backoff.ms": 200}
SESSION_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "768m",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.stopTimeout": "60000",
}

# Every JVM of these tests is short-lived: compiling its code well takes longer than running it.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED_JVM)

CreateTopic = Callable[..., str]

# The first test pays for the session and for Spark's first jobs, which takes minutes on a busy machine.
TIMEOUT_S = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """The session of the whole run, with nothing registered by hand: the format is found by its name."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from tidelog.spark.java import JavaMissing, require_java

    try:
        require_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tidelog-tests")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    for name, value in SESSION_SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of the whole run, which nobody may kill."""
    kind: type[Broker] = Broker
    if jars := os.environ.get("TIDELOG_TEST_KAFKA"):
        from interop.apache_kafka import KafkaBroker

        KafkaBroker.jars = Path(jars)
        kind = KafkaBroker
    with running_broker(tmp_path_factory.mktemp("spark-broker"), BROKER_SETTINGS, kind=kind) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def create_topic(bootstrap: str) -> CreateTopic:
    """Makes a topic with a name of its own; ``at`` names another cluster."""

    def create(
        partitions: int = 1,
        replicas: int = 1,
        *,
        name: str | None = None,
        at: str | None = None,
        **settings: object,
    ) -> str:
        topic = name or f"topic-{uuid.uuid4().hex[:12]}"
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin = AdminClient({"bootstrap.servers": at or bootstrap})
        admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])[topic].result(30)
        return topic

    return create


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
