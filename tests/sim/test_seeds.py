"""Seeds of every mode: nothing lost, one leader per epoch, everything writable again after the faults.

A failure names its seed; ``tidelog sim --seed N --mode M`` repeats it.
"""

import logging
from collections.abc import Iterator

import pytest

from tidelog.sim.run import run

SEEDS = {"quorum": range(60), "isr": range(10)}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("mode", "seed"), [(mode, seed) for mode, seeds in SEEDS.items() for seed in seeds])
def test_promises_hold(mode: str, seed: int) -> None:
    summary = run(mode, seed)
    assert summary["acknowledged"] > 0


@pytest.mark.parametrize("mode", SEEDS)
def test_the_same_seed_gives_the_same_run(mode: str) -> None:
    first, second = run(mode, 1), run(mode, 1)
    assert first["digest"] == second["digest"]
    assert first["trace"] == second["trace"]
    assert run(mode, 2)["digest"] != first["digest"]
