"""The pytest plugin: fixtures that provide real brokers, and the brokers' logs when a test fails.

Installed with Tidelog (entry point ``pytest11``), so ``tidelog_broker`` and ``tidelog_cluster`` are available
without an import.
"""

from collections.abc import Generator, Iterator, Mapping

import pytest

from tidelog.lab.local.broker import Broker, Setting, running_broker
from tidelog.lab.local.cluster import Cluster, running_cluster

LOG_LINES_IN_REPORT = 40


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "tidelog_settings(settings): broker settings for this test's own brokers, by Kafka's names",
    )
    config.addinivalue_line(
        "markers", "tidelog_brokers(count): how many brokers this test's tidelog_cluster has, 3 by default"
    )
    config.addinivalue_line(
        "markers",
        "tidelog_security(tls=False, users=None): this test's tidelog_cluster encrypts connections, and asks "
        "clients to log in as one of the users (name: password); not with tidelog_faults",
    )
    config.addinivalue_line(
        "markers",
        "tidelog_faults(*kinds): the faults that this test's tidelog_cluster can have: network, disk, power; "
        "without kinds all of them",
    )


@pytest.fixture(scope="session")
def tidelog_settings() -> Mapping[str, Setting]:
    """Broker settings for all fixtures; override it in your conftest.py."""
    return {}


@pytest.fixture
def tidelog_test_settings(
    request: pytest.FixtureRequest, tidelog_settings: Mapping[str, Setting]
) -> Mapping[str, Setting]:
    """The settings above, overridden by the test's markers."""
    settings = dict(tidelog_settings)
    for marker in reversed(list(request.node.iter_markers("tidelog_settings"))):
        settings.update(marker.args[0])
    return settings


@pytest.fixture
def tidelog_broker(
    tmp_path_factory: pytest.TempPathFactory, tidelog_test_settings: Mapping[str, Setting]
) -> Iterator[Broker]:
    """A fresh, empty broker for one test, which may kill, pause and restart it."""
    with running_broker(tmp_path_factory.mktemp("tidelog"), tidelog_test_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def tidelog_shared_broker(
    tmp_path_factory: pytest.TempPathFactory, tidelog_settings: Mapping[str, Setting]
) -> Iterator[Broker]:
    """One broker for the whole test run: fast, but it has topics of other tests and must not be killed."""
    with running_broker(tmp_path_factory.mktemp("tidelog-shared"), tidelog_settings) as broker:
        yield broker


@pytest.fixture
def tidelog_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tidelog_test_settings: Mapping[str, Setting],
) -> Iterator[Cluster]:
    """A fresh, empty cluster for one test, which may kill, pause and restart each of its brokers. With the
    marker tidelog_faults it is a :class:`~tidelog.testing.BreakableCluster`.
    """
    marker = request.node.get_closest_marker("tidelog_brokers")
    count = marker.args[0] if marker else 3
    directory = tmp_path_factory.mktemp("tidelog")
    faults = request.node.get_closest_marker("tidelog_faults")
    if faults is None:
        security = request.node.get_closest_marker("tidelog_security")
        chosen = dict(security.kwargs) if security else {}
        with running_cluster(directory, count, tidelog_test_settings, **chosen) as cluster:
            yield cluster
        return
    from tidelog.lab.faults.breakable import HOOKS, breakable_cluster

    hooks = faults.args or HOOKS
    with breakable_cluster(directory, count, tidelog_test_settings, hooks=hooks) as breakable:
        yield breakable


@pytest.fixture(scope="session")
def tidelog_shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, tidelog_settings: Mapping[str, Setting]
) -> Iterator[Cluster]:
    """One cluster of three for the whole test run, under the same terms as the shared broker."""
    directory = tmp_path_factory.mktemp("tidelog-shared-cluster")
    with running_cluster(directory, settings=tidelog_settings) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the log of every broker of the failed test."""
    report = yield
    if report.failed:
        fixtures: Mapping[str, object] = getattr(item, "funcargs", None) or {}
        shown: set[Broker] = set()  # several fixtures may share a broker
        for name, value in fixtures.items():
            brokers = [value] if isinstance(value, Broker) else value if isinstance(value, Cluster) else []
            for broker in brokers:
                if broker not in shown:
                    tail = broker.log_tail(LOG_LINES_IN_REPORT)
                    report.sections.append((f"log of {name} {broker!r}", tail))
                shown.add(broker)
    return report
