"""The pytest plugin, run inside a pytest of its own with a stand-in for the broker command."""

from pathlib import Path

import pytest

STANDIN = Path(__file__).with_name("standin.py")

CONFTEST = f"""
import sys
from tidelog.testing import Broker

Broker.command = lambda self: [sys.executable, {str(STANDIN)!r}, str(self.port), "0"]
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
