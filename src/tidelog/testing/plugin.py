"""The pytest plugin: fixtures that hand a test a real broker, and the broker's log when the test fails.

Installed with Tidelog (entry point ``pytest11``), so ``tidelog_broker`` is there without any import.
"""

from collections.abc import Generator, Iterator, Mapping

import pytest

from tidelog.testing.broker import Broker, Setting, running_broker

LOG_LINES_IN_REPORT = 40


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "tidelog_settings(settings): broker settings for this test's tidelog_broker, by Kafka's names",
    )


@pytest.fixture(scope="session")
def tidelog_settings() -> Mapping[str, Setting]:
    """Broker settings for both fixtures; override it in your conftest.py."""
    return {}


@pytest.fixture
def tidelog_broker(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    tidelog_settings: Mapping[str, Setting],
) -> Iterator[Broker]:
    """A fresh, empty broker for one test, which may kill, pause and restart it."""
    settings = dict(tidelog_settings)
    for marker in reversed(list(request.node.iter_markers("tidelog_settings"))):
        settings.update(marker.args[0])
    with running_broker(tmp_path_factory.mktemp("tidelog"), settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def tidelog_shared_broker(
    tmp_path_factory: pytest.TempPathFactory, tidelog_settings: Mapping[str, Setting]
) -> Iterator[Broker]:
    """One broker for the whole test run: fast, but topics of other tests are in it and nobody may kill it."""
    with running_broker(tmp_path_factory.mktemp("tidelog-shared"), tidelog_settings) as broker:
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the log of every broker the failed test was given, by whichever fixture."""
    report = yield
    if report.failed:
        fixtures: Mapping[str, object] = getattr(item, "funcargs", None) or {}
        for name, value in fixtures.items():
            if isinstance(value, Broker):
                report.sections.append((f"log of {name} {value!r}", value.log_tail(LOG_LINES_IN_REPORT)))
    return report
