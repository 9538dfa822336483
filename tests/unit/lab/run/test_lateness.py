"""How late the machine is."""

import time
from pathlib import Path

import pytest

from tidelog.lab.run import lateness
from tidelog.lab.run.lateness import Lateness


def until_worst(found: Lateness, worst_s: float) -> None:
    deadline = time.monotonic() + 20
    while found.worst_s < worst_s:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_a_slow_disk_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "SYNC_EVERY", 1)
    monkeypatch.setattr("os.fsync", lambda file: time.sleep(0.2))
    found = Lateness(tmp_path)
    found.start()
    until_worst(found, 0.15)
    found.stop()
    found.stop()
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_stopped_without_a_start(tmp_path: Path) -> None:
    found = Lateness(tmp_path)
    found.stop()
    assert found.worst_s == 0.0
