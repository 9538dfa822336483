"""Seeds that must notice a mutation."""

import os
from pathlib import Path
from typing import Any

import pytest

from tidelog.errors import InvariantViolation
from tidelog.sim.checkers import Violation
from tidelog.sim.run import run

FOUND_BY: dict[str, int] = {}
"""Mutations that the first seeds do not notice, and one that does: it is tried first, to save minutes. It may
be another one after a change of the plans; then the others are tried, and ``TIDELOG_TEST_SEEDS=FILE`` writes
down which one it is.
"""


def notice(mode: str, mutation: str, count: int, wanted: dict[str, Any]) -> None:
    """Fail unless one of the first ``count`` seeds breaks a promise."""
    seeds = list(range(count))
    if mutation in FOUND_BY:
        seeds.insert(0, FOUND_BY[mutation])
    for seed in seeds:
        try:
            run(mode, seed, **wanted)
        except (Violation, InvariantViolation):
            _write_down(mutation, seed)
            return
    pytest.fail(f"{count} seeds ran without noticing {mutation}")


def _write_down(mutation: str, seed: int) -> None:
    if file := os.environ.get("TIDELOG_TEST_SEEDS"):
        with Path(file).open("a") as lines:
            lines.write(f'    "{mutation}": {seed},\n')
