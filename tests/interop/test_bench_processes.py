"""The bench ends what it started, also when it is told to end itself."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from . import calls

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

# Both children must go: the one that is taken down as the exception passes, and the one nobody looks after.
BENCH = """
import sys, time
from pathlib import Path
from bench.process import Child
children = [Child("child", ["sleep", "600"], Path(sys.argv[1])) for _ in range(2)]
print(*(child.pid for child in children), flush=True)
try:
    time.sleep(600)
finally:
    children[0].stop()
"""


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_bench_that_is_terminated_leaves_no_broker_behind(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", BENCH, str(tmp_path / "output")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        children = [int(word) for word in bench.stdout.readline().split()]
        assert len(children) == 2
        assert all(map(runs, children))
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 128 + signal.SIGTERM
    calls.eventually(lambda: not any(map(runs, children)), "the children are gone")
