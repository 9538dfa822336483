"""Which broker the suite runs against, and the fixtures that name it.

By default Tidelog's own, one for the whole run plus fresh ones for tests that kill or configure theirs. Two
variables put another in its place, to see that the tests say what Kafka does and not what Tidelog does:

- ``TIDELOG_TEST_KAFKA``: a directory of Apache Kafka's jars; every broker is then a Kafka.
- ``TIDELOG_TEST_BOOTSTRAP``: a broker or cluster that runs already; tests that need their own process are
  skipped.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.testing import Broker, running_broker

from . import calls, node_wires
from .apache_kafka import KafkaBroker
from .wire import Wire

BOOTSTRAP = os.environ.get("TIDELOG_TEST_BOOTSTRAP")
KAFKA = os.environ.get("TIDELOG_TEST_KAFKA")

SHARED_SETTINGS = {"log.retention.check.interval.ms": 500, "log.cleaner.backoff.ms": 200}

CreateTopic = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "not_kafka: about something that only Tidelog has")
    if KAFKA:
        KafkaBroker.jars = Path(KAFKA)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (KAFKA or BOOTSTRAP) and item.get_closest_marker("not_kafka"):
            item.add_marker(pytest.mark.skip(reason="only Tidelog has this"))


def broker_kind() -> type[Broker]:
    return KafkaBroker if KAFKA else Broker


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if BOOTSTRAP:
        pytest.skip("needs the broker's process, and TIDELOG_TEST_BOOTSTRAP names a broker of somebody else")
    directory = tmp_path_factory.mktemp("shared")
    with running_broker(directory, SHARED_SETTINGS, kind=broker_kind()) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker all tests share can be reached."""
    if BOOTSTRAP:
        return BOOTSTRAP
    broker: Broker = request.getfixturevalue("shared_broker")
    return broker.bootstrap


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A fresh broker for one test; ``@pytest.mark.tidelog_settings({...})`` gives it settings."""
    if BOOTSTRAP:
        pytest.skip("needs a broker of its own, and TIDELOG_TEST_BOOTSTRAP names a running one")
    marker = request.node.get_closest_marker("tidelog_settings")
    settings = marker.args[0] if marker else {}
    with running_broker(tmp_path_factory.mktemp("own"), settings, kind=broker_kind()) as broker:
        yield broker


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as wire:
        yield wire


@pytest.fixture
def node_wire(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Wire]:
    """For requests that only nodes may send."""
    if BOOTSTRAP or KAFKA:
        connected = Wire(bootstrap)  # They take such requests from everybody unless they have an authorizer.
    else:
        broker: Broker = request.getfixturevalue("shared_broker")
        connected = node_wires.node_wire(bootstrap, broker.directory / "cluster.secret")
    with connected as wire:
        yield wire


@pytest.fixture
def create_topic(bootstrap: str) -> CreateTopic:
    """Creates a topic on the shared broker and returns its name, which no other test uses."""

    def create(partitions: int = 1, **configs: object) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        with Wire(bootstrap) as wire:
            calls.create_topic(wire, name, partitions, configs)
        return name

    return create


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    """A topic with one partition and no settings of its own."""
    return create_topic()
