"""``tidelog lab`` as a user runs it: real brokers, real clients, a real fault."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.testing import Broker

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHORT = """\
title = "a short run"
rounds = 1
before = 0.3
lasts = 1.0
after = 0.2

[[topics]]
partitions = 2

[[timeline]]
at = 0
fault = "kill"
on = "leader"
lasts = 1.0
"""
TOO_STRICT = "\n[checks]\nwrites_stand_still_max_s = 0.000001\n"


def lab(*words: str | Path, directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidelog", "lab", *map(str, words), "--dir", str(directory)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes_of(directory: Path) -> list[str]:
    """Command lines that name the directory, of whoever has it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(directory) in line:
                found.append(line)
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_rounds_are_judged_and_ctrl_c_ends_all_processes_and_keeps_them(tmp_path: Path) -> None:
    """A check that no cluster can keep makes the verdict. Which exit code that has is a test of
    ``cli/lab/commands.py``.
    """
    file = tmp_path / "mine.toml"
    file.write_text(SHORT.replace("rounds = 1", "rounds = 50") + TOO_STRICT)
    brokers, history, report = tmp_path / "brokers", tmp_path / "history", tmp_path / "report.html"
    run = lab(
        "run", file, "--mode", "quorum", "--json", "--history", history, "--report", report, directory=brokers
    )
    assert run.stderr is not None
    for line in run.stderr:
        if "round 2 of 50: before the fault" in line:
            break
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    results = json.loads(out)
    assert not results["is_complete"]
    (cell,) = results["cells"]
    assert (cell["mode"], cell["verdict"], len(cell["rounds"])) == ("quorum", "broken", 1)
    assert "the experiment allows" in cell["sentence"] and "only 1 of 50 rounds" in cell["sentence"]
    figures = cell["worst"]
    assert figures["acknowledged"] > 100
    assert (figures["lost"], figures["doubled"], figures["disordered"]) == (0, 0, 0)
    assert figures["redundant_after_s"] is not None
    (band,) = cell["rounds"][0]["time_line"]["faults"]
    assert band["name"].startswith("kill -9 of broker")
    assert {path.name for path in history.iterdir()} == {"mine-tidelog-1", "_unfinished-mine-tidelog-2"}
    assert "mine" in report.read_text() and "Not complete" in report.read_text()
    assert list(brokers.iterdir()) == []
    assert processes_of(brokers) == []


def test_an_external_cluster_gets_only_faults_that_it_has_commands_for(
    tidelog_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SHORT)
    words = ("--target", "external", "--bootstrap", tidelog_broker.bootstrap)
    run = lab("run", file, *words, directory=tmp_path / "brokers")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert err == "tidelog: Not run: the fault kill cannot be made on external.\n"
