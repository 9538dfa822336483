"""What a service manager hears."""

import socket
from pathlib import Path

import pytest

from tidelog.runtime.notify import READY, VARIABLE, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_it_hears_that_the_process_is_ready(
    is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{path}" if is_abstract else path)
        manager.settimeout(10)
        monkeypatch.setenv(VARIABLE, f"@{path}" if is_abstract else path)
        notify(READY)
        assert manager.recv(100) == b"READY=1"


def test_nobody_needs_to_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    notify(READY)
    monkeypatch.delenv(VARIABLE)
    notify(READY)
