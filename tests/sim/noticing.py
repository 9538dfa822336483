"""Seeds that must notice a mutation."""

import os
from pathlib import Path
from typing import Any

import pytest

from tidelog.errors import InvariantViolation
from tidelog.sim.checkers import Violation
from tidelog.sim.run import run

FOUND_BY = {
    ("controllers", "forget_the_epoch_before_the_log"): 4,
    ("controllers", "vote_twice"): 4,
    ("controllers", "vote_while_forgetful"): 4,
    ("isr", "count_earlier_runs"): 16,
    ("isr", "join_for_what_was_dropped"): 10,
    ("isr", "take_old_proposals"): 20,
    ("primary-backup", "ok_at_once"): 3,
    ("primary-backup", "ok_when_time_is_up"): 5,
    ("quorum", "forget_the_epoch_of_expired_records"): 5,
    ("transactions", "count_offsets_at_once"): 18,
    ("transactions", "end_pending_offsets_too_early"): 12,
    ("transactions", "forget_a_marker"): 4,
}
"""Mutations that the first seeds do not notice, and one that does: it is tried first, to save minutes. It may
be another one after a change of the plans; then the others are tried, and ``TIDELOG_TEST_SEEDS=FILE`` writes
down which one it is.
"""


def notice(mode: str, mutation: str, count: int, wanted: dict[str, Any]) -> None:
    """Fail unless one of the first ``count`` seeds breaks a promise."""
    seeds = list(range(count))
    if (mode, mutation) in FOUND_BY:
        seeds.insert(0, FOUND_BY[mode, mutation])
    for seed in seeds:
        try:
            run(mode, seed, **wanted)
        except (Violation, InvariantViolation):
            _write_down(mode, mutation, seed)
            return
    pytest.fail(f"{count} seeds ran without noticing {mutation}")


def _write_down(mode: str, mutation: str, seed: int) -> None:
    if file := os.environ.get("TIDELOG_TEST_SEEDS"):
        with Path(file).open("a") as lines:
            lines.write(f'    ("{mode}", "{mutation}"): {seed},\n')
