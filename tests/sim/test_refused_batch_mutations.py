"""Batches behind a refused one: without the rule, the stories and the simulated producers notice."""

from typing import Any, ClassVar

import pytest

from tidelog.broker.partitions.refused_batches import RefusedBatches
from tidelog.errors import ErrorCode
from tidelog.log import producers
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.plan import PLAIN, LoadPlan, ProducerPlan, WeatherPlan
from tidelog.sim.run import run
from tidelog.sim.stories import refused_batches
from tidelog.sim.telling import StoryFailed

CHANGES = "changes"


@pytest.mark.parametrize("tell", refused_batches.STORIES)
def test_refusals_that_are_not_noted_are_noticed(tell: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusedBatches, "note", lambda *_: None)
    with pytest.raises(StoryFailed):
        tell()  # type: ignore[operator]


def test_an_unknown_producer_that_begins_anywhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "_check_follows_none", lambda *_: None)
    with pytest.raises(StoryFailed):
        refused_batches.first_batches()


def test_a_note_of_the_first_refused_batch_only_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry of the first arrives before the last of those that were under way."""
    note = RefusedBatches.note

    def note_first(self: RefusedBatches, key: str, index: int, records: memoryview, error: ErrorCode) -> None:
        if not self.any:
            note(self, key, index, records, error)

    monkeypatch.setattr(RefusedBatches, "note", note_first)
    with pytest.raises(StoryFailed):
        refused_batches.retry_overtakes()


class TestProducersWithRequestsInFlight:
    """Six idempotent producers, leaders that come and go, and requests that arrive late."""

    PLAN: ClassVar[dict[str, Any]] = {
        **PLAIN,
        "producers": tuple(ProducerPlan(partition, -1, True) for partition in (0, 1, 2, 0, 1, 2)),
        "load": LoadPlan(produce_pause_ms=12.0),
        "weather": WeatherPlan(late=0.1),
        "operations": ("stop", "drain", "promote"),
        "faults": ("kill", "start"),
        "pace_ms": (100, 900),
        "faults_ms": 8000.0,
        "transactors": 0,
        "members": 0,
    }
    SEEDS = (9, 11, 15, 22, 31)
    FRESH_SEEDS = range(1000, 1040)  # About one in eight notices.

    def test_none_is_told_of_a_gap(self) -> None:
        for seed in self.SEEDS:
            run(CHANGES, seed, **self.PLAN)

    def test_a_gap_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(RefusedBatches, "before", lambda *_: None)
        with pytest.raises(Violation, match="is out of order for a broker that has refused"):
            for seed in (*self.SEEDS, *self.FRESH_SEEDS):
                run(CHANGES, seed, **self.PLAN)
