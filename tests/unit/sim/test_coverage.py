"""What the simulator says it has reached."""

import logging
from collections.abc import Iterator

import pytest

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Replica
from tidelog.sim.coverage import Coverage
from tidelog.sim.run import run

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_a_run_reaches_something_of_every_table_and_is_the_same_run() -> None:
    plain = run("isr", 0, faults_ms=3000.0, administrated=True)
    coverage = Coverage()
    with coverage.watch():
        watched = run("isr", 0, faults_ms=3000.0, administrated=True)
    assert watched == plain
    for table, counts in coverage.tables.items():
        assert any(counts.values()), table
    assert coverage.tables["effects"]["Commit"] > 0
    assert "unattached → prospective" in coverage.tables["states of elections"]


def test_nothing_is_watched_afterwards() -> None:
    before = ReplicaDriver.run, Replica.__dict__["role"]
    with Coverage().watch():
        assert ReplicaDriver.run is not before[0]
    assert (ReplicaDriver.run, Replica.__dict__["role"]) == before


def test_what_was_never_reached_is_named() -> None:
    coverage = Coverage()
    assert "Commit" in coverage.never("effects")
    coverage.count("effects", "Commit")
    assert "Commit" not in coverage.never("effects")
    assert any(line.startswith("effects: 1/") for line in coverage.report())
