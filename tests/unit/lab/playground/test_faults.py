"""Faults on the processes of a directory. Each broker is a process that waits and has the right name."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.playground.brokers import LocalBrokers
from tidelog.lab.playground.faults import DOWN, FROZEN, KILLED, UP, Faults

pytestmark = pytest.mark.slow

Start = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    processes: list[subprocess.Popen[bytes]] = []

    def started(number: int) -> "subprocess.Popen[bytes]":
        home = tmp_path / f"broker-{number}"
        home.mkdir(exist_ok=True)
        (home / "broker.toml").write_text("")
        process = subprocess.Popen([sys.executable, "-c", "input()", "tidelog"], stdin=subprocess.PIPE)
        (home / "broker.pid").write_text(f"{process.pid}\n")
        processes.append(process)
        # Popen returns when the program is loaded, which is before the kernel shows its arguments.
        until(lambda: b"tidelog" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def state_of(process: "subprocess.Popen[bytes]") -> str:
    """R, S, T (stopped) or Z (ended)."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_kill_is_kill_9(tmp_path: Path, start: Start) -> None:
    process = start(2)
    faults = Faults(LocalBrokers(tmp_path))
    assert faults.states() == {2: UP}
    assert faults.kill(2) == "Broker 2 was killed with kill -9."
    assert process.wait(10) == -9
    assert faults.states() == {2: KILLED}
    (band,) = faults.shown()
    assert (band.broker, band.what, band.end_ms) == (2, KILLED, -1)
    with pytest.raises(FaultError, match="Broker 2 does not run"):
        faults.kill(2)


def test_freeze_and_thaw(tmp_path: Path, start: Start) -> None:
    process = start(1)
    faults = Faults(LocalBrokers(tmp_path))
    faults.freeze(1)
    assert faults.states() == {1: FROZEN}
    until(lambda: state_of(process) == "T")  # a signal takes effect when its process is scheduled
    with pytest.raises(FaultError, match="frozen already"):
        faults.freeze(1)
    faults.thaw(1)
    assert faults.states() == {1: UP}
    until(lambda: state_of(process) != "T")
    assert faults.shown()[0].end_ms >= faults.shown()[0].begin_ms
    with pytest.raises(FaultError, match="not frozen"):
        faults.thaw(1)


def test_a_frozen_broker_can_be_killed(tmp_path: Path, start: Start) -> None:
    process = start(1)
    faults = Faults(LocalBrokers(tmp_path))
    faults.freeze(1)
    faults.kill(1)
    assert process.wait(10) == -9
    frozen, killed = faults.shown()
    assert (frozen.what, killed.what) == (FROZEN, KILLED)
    assert frozen.end_ms >= 0 > killed.end_ms


def test_nothing_stays_frozen(tmp_path: Path, start: Start) -> None:
    first, second = start(1), start(2)
    faults = Faults(LocalBrokers(tmp_path))
    faults.freeze(1)
    faults.freeze(2)
    faults.heal_all()
    assert faults.states() == {1: UP, 2: UP}
    until(lambda: "T" not in (state_of(first), state_of(second)))


def test_somebody_else_starts_a_killed_broker(tmp_path: Path, start: Start) -> None:
    process = start(1)
    faults = Faults(LocalBrokers(tmp_path))
    faults.kill(1)
    process.wait(10)
    start(1)
    assert faults.states() == {1: UP}
    assert faults.shown()[0].end_ms >= 0


def test_a_pid_file_that_names_a_stranger_names_no_broker(tmp_path: Path, start: Start) -> None:
    start(1)
    (tmp_path / "broker-1" / "broker.pid").write_text("1\n")
    faults = Faults(LocalBrokers(tmp_path))
    if b"tidelog" in Path("/proc/1/cmdline").read_bytes():
        pytest.skip("process 1 of this machine has the name of a broker")
    assert faults.states() == {1: DOWN}
    for act in (faults.kill, faults.freeze):
        with pytest.raises(FaultError, match="does not run"):
            act(1)


def test_brokers_that_are_not_there(tmp_path: Path, start: Start) -> None:
    start(1)
    with pytest.raises(FaultError, match="There is no broker 7; there are 1"):
        Faults(LocalBrokers(tmp_path)).restart(7)
