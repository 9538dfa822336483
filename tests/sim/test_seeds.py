"""The seeds of all modes, looked at together."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from seeds import FIRST, SEEDS

from tidelog.sim.run import MODES


def test_every_mode_has_its_seeds() -> None:
    files = {path.stem.removeprefix("test_seeds_") for path in Path(__file__).parent.glob("test_seeds_*.py")}
    assert files == {mode.replace("-", "_") for mode in MODES}
    assert set(SEEDS) == set(MODES)
    assert sum(map(len, SEEDS.values())) >= 200


@pytest.mark.slow
def test_another_process_gives_the_same_run() -> None:
    """Whatever is not drawn from the seed would show: the order of sets and dicts, addresses, the clock."""
    one, other = (_summary_of_process(hash_seed) for hash_seed in ("1", "2"))
    assert one["runs"] == len(MODES)
    assert one["digest"] == other["digest"]


def _summary_of_process(hash_seed: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tidelog", "sim", "--seeds", "1", "--first", str(FIRST)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary
