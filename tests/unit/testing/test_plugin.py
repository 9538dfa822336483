"""The pytest plugin, run inside a pytest of its own with a stand-in for the broker command."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STANDIN = Path(__file__).parents[1] / "lab/local/standin.py"

CONFTEST = f"""
import sys
from tidelog.testing import Broker

Broker.command = lambda self: [
    sys.executable, {str(STANDIN)!r}, str(self.port), "0", self.settings.get("controller.quorum.voters", "")
]
"""


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def run(inner: pytest.Pytester) -> pytest.RunResult:
    # A process of its own: the patched command must not leak into the tests around this one.
    return inner.runpytest_subprocess("-p", "no:cacheprovider")


def test_each_test_gets_a_fresh_broker_and_all_share_the_shared_one(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        seen, shared = set(), set()

        def test_one(tidelog_broker, tidelog_shared_broker):
            seen.add((tidelog_broker.port, tidelog_broker.directory))
            shared.add(tidelog_shared_broker.pid)

        def test_two(tidelog_broker, tidelog_shared_broker):
            seen.add((tidelog_broker.port, tidelog_broker.directory))
            shared.add(tidelog_shared_broker.pid)
            assert len(seen) == 2
            assert len(shared) == 1
    """)
    run(inner).assert_outcomes(passed=2)


def test_settings_come_from_the_conftest_fixture_and_the_marker(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest

        @pytest.fixture(scope="session")
        def tidelog_settings():
            return {"num.partitions": 3, "auto.create.topics.enable": False}

        @pytest.mark.tidelog_settings({"num.partitions": 5})
        def test_marker_wins(tidelog_broker, tidelog_shared_broker):
            assert tidelog_broker.settings == {"num.partitions": 5, "auto.create.topics.enable": False}
            assert tidelog_shared_broker.settings["num.partitions"] == 3
    """)
    run(inner).assert_outcomes(passed=1)


def test_a_failure_shows_the_brokers_log(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_fails(tidelog_broker):
            assert False
    """)
    result = run(inner)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of tidelog_broker <Broker 127.0.0.1:*", "listening"])


def test_a_broker_that_dies_during_a_test_is_an_error(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import os, signal

        def test_dies(tidelog_broker):
            os.kill(tidelog_broker.pid, signal.SIGKILL)
            tidelog_broker._process.wait()
    """)
    result = run(inner)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*BrokerError: the broker ended by itself with exit code -9*"])


def test_a_cluster_of_as_many_brokers_as_the_test_says(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import pytest

        def test_three(tidelog_cluster, tidelog_shared_cluster):
            assert (len(tidelog_cluster), len(tidelog_shared_cluster)) == (3, 3)

        @pytest.mark.tidelog_brokers(5)
        @pytest.mark.tidelog_settings({"num.partitions": 5})
        def test_five(tidelog_cluster):
            assert len(tidelog_cluster.view().brokers) == 5
            assert all(broker.settings["num.partitions"] == 5 for broker in tidelog_cluster)
    """)
    run(inner).assert_outcomes(passed=2)


def test_a_failure_shows_the_log_of_every_broker_of_the_cluster(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_fails(tidelog_cluster):
            assert False
    """)
    result = run(inner)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*log of tidelog_cluster <Broker 127.0.0.1:*", "listening"] * 3)
