"""A cluster in the background: whom `tidelog down` stops."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.failure import CommandFailed
from tidelog.cli.local import detached
from tidelog.cli.local.broker_settings import LocalBroker


def test_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--dir", str(tmp_path)]) == 1
    assert "No `tidelog up` runs in" in capsys.readouterr().err


def test_a_pid_of_a_stranger_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / detached.PID).write_text("1\n")
    assert detached.running_pid(tmp_path) is None


def test_the_file_lives_as_long_as_the_process(tmp_path: Path) -> None:
    with detached.pid_file(tmp_path):
        assert (tmp_path / detached.PID).read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / detached.PID).exists()


def test_two_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "running_pid", lambda directory: 42)
    with pytest.raises(CommandFailed, match=r"runs already \(pid 42\)"):
        detached.detach(tmp_path, [], has_page=False)


class Starting:
    """A `tidelog up` that never becomes ready."""

    def __init__(self, *_words: object, **_more: object) -> None:
        self.ended: list[str] = []
        STARTED.append(self)

    def poll(self) -> None:
        return None

    def terminate(self) -> None:
        self.ended.append("told to stop")

    def wait(self, _seconds: float) -> None:
        self.ended.append("waited for")


STARTED: list[Starting] = []


def test_an_interrupted_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Starting)
    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        detached.detach(tmp_path / "new", [], has_page=False)
    assert STARTED[-1].ended == ["told to stop", "waited for"]
    assert "what had been started was stopped" in capsys.readouterr().err


def test_brokers_that_outlived_their_parent_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"broker-{number}").mkdir()
        (tmp_path / f"broker-{number}" / "broker.toml").touch()
    pids = {1: 41, 2: None, 3: 43}
    monkeypatch.setattr(LocalBroker, "running_pid", lambda broker: pids[broker.broker_id])
    assert main(["down", "--dir", str(tmp_path)]) == 1
    assert "but brokers 1 and 3 do; stop them with: kill 41 43" in capsys.readouterr().err
