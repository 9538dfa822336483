"""Hunts: what several workers find, and one that is killed and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.sim.hunt import Sums
from tidelog.cli.sim.pool import Pool, Task
from tidelog.sim.attempt import Outcome
from unit.cli.sim.hunts import sim

pytestmark = pytest.mark.slow
QUICK = ("--mode", "controllers", "--plan", "faults_ms=500")


def test_the_digest_does_not_depend_on_who_finishes_first() -> None:
    digests = set()
    for order in ([0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]):
        sums = Sums()
        for number in order:
            sums.take(number, Outcome("isr", number, digest=f"d{number}"))
        digests.add(sums.digest())
    assert len(digests) == 1


def test_workers_find_what_one_process_finds() -> None:
    one, two = (sim("--seeds", "4", "--workers", workers, *QUICK) for workers in ("1", "2"))
    assert one["runs"] == two["runs"] == 4
    assert one["digest"] == two["digest"]


def test_a_worker_that_dies_is_a_failed_run_and_is_replaced() -> None:
    tasks = [Task(0, "no such mode", 1, {}), Task(1, "controllers", 1, {"faults_ms": 500.0})]
    done = list(Pool(1).run(lambda: tasks.pop(0) if tasks else None))
    assert [each.outcome.failed for each in done] == [True, False]
    assert done[0].outcome.error == "NoResult: its process ended with 1"


def test_a_hunt_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    wanted = ["--first", "100", "--workers", "2", "--report", str(tmp_path), *QUICK]
    runs = tmp_path / "runs.jsonl"
    process = subprocess.Popen([sys.executable, "-m", "tidelog", "sim", *wanted, "--seeds", "100000"])
    children = _children_when(process, lambda: runs.exists() and runs.read_bytes().count(b"\n") >= 3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _wait(lambda: not any(map(_is_alive, children)))
    finished = runs.read_bytes().count(b"\n")
    summary = sim(*wanted, "--seeds", str(finished + 4))
    numbers = [json.loads(line)[0] for line in runs.open()]
    assert sorted(numbers) == list(range(finished + 4))
    assert summary["runs"] == finished + 4
    assert summary["digest"] == sim("--first", "100", *QUICK, "--seeds", str(finished + 4))["digest"]
    assert json.loads((tmp_path / "summary.json").read_text())["runs"] == finished + 4


def _is_alive(child: str) -> bool:
    """A process that has ended may wait for somebody to take notice."""
    try:
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children_when(process: "subprocess.Popen[bytes]", condition: Any) -> list[str]:
    _wait(condition)
    tasks = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return tasks.read_text().split() if tasks.exists() else []


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
