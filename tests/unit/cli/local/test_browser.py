"""The browser of a demo."""

import sys
import webbrowser
from pathlib import Path

import pytest

from tidelog.cli.local.browser import FILE, forget_page, open_page

ADDRESS = "http://127.0.0.1:8080/playground#token=s3cret"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("DISPLAY", ":0")
    return found


def test_the_token_is_in_no_command_line(opened: list[str], tmp_path: Path) -> None:
    """Every user of a machine may read those."""
    open_page(tmp_path, ADDRESS)
    open_page(tmp_path, ADDRESS)  # There is one from before.
    path = tmp_path / FILE
    assert opened == [path.as_uri()] * 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"url={ADDRESS}" in path.read_text()
    forget_page(tmp_path)
    forget_page(tmp_path)
    assert not path.exists()


def test_without_a_screen_nothing_is_opened(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    open_page(tmp_path, ADDRESS)
    assert opened == []
    assert not (tmp_path / FILE).exists()
