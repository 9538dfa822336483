"""What is drawn for a run."""

import pytest

from tidelog.sim import controllers_run, plan
from tidelog.sim.run import CONTROLLERS, MODES, prepare

SEEDS = range(60)


@pytest.mark.parametrize("mode", MODES)
def test_every_pace_is_drawn_about_as_often(mode: str) -> None:
    paces = controllers_run.PACES_MS if mode == CONTROLLERS else plan.PACES_MS
    drawn = [prepare(mode, seed, {}).plan.pace_ms for seed in SEEDS]
    assert set(drawn) == set(paces)
    assert all(drawn.count(pace) > len(SEEDS) / 6 for pace in paces)


@pytest.mark.parametrize("mode", MODES)
def test_a_pace_that_is_wanted_is_not_drawn(mode: str) -> None:
    assert {prepare(mode, seed, {"pace_ms": (1.0, 2.0)}).plan.pace_ms for seed in SEEDS} == {(1.0, 2.0)}
