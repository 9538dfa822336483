"""What the driver cleans up is finished although its process is killed meanwhile."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidelog.spark.writing import detached

SCRIPT = """
import signal, sys, time
from pathlib import Path
from tidelog.spark.writing import detached

def work():
    Path(sys.argv[1]).touch()
    while not Path(sys.argv[2]).exists():
        time.sleep(0.01)
    Path(sys.argv[3]).touch()

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored below nohup.
detached.finish(work)
"""
WAIT_S = 60.0


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("killed_by", [signal.SIGHUP, signal.SIGKILL])
@pytest.mark.slow
def test_work_goes_on_without_its_process(tmp_path: Path, killed_by: signal.Signals) -> None:
    begun, killed, done = (tmp_path / name for name in ("begun", "killed", "done"))
    words = [sys.executable, "-c", SCRIPT, str(begun), str(killed), str(done)]
    process = subprocess.Popen(words, start_new_session=True)
    wait_for(begun)
    os.killpg(process.pid, killed_by)  # as the daemon of Spark's workers does when it ends
    assert process.wait() == -killed_by
    killed.touch()
    wait_for(done)


def test_work_is_waited_for_and_its_errors_are_dropped(tmp_path: Path) -> None:
    def work() -> None:
        time.sleep(0.05)
        (tmp_path / "done").touch()
        raise ValueError("nobody hears this")

    detached.finish(work)
    assert (tmp_path / "done").exists()
