"""What ``tidelog pipeline schedule`` says after it wrote its files."""

from pathlib import Path

import pytest

from tidelog.cli.app import run

COMMAND = ["--", "archive", "orders", "--to", "/data/orders"]


def _said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["pipeline", "schedule", *words, *COMMAND]) == 0
    return capsys.readouterr().out


def test_it_says_how_to_start_a_timer_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(["--every", "5 minutes", "--to", str(tmp_path / "my units")], capsys)
    assert f"systemctl --user link '{tmp_path}/my units/tidelog-archive-orders'.service" in said
    assert "loginctl enable-linger" in said


def test_a_service_of_the_system_needs_no_login(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(["--every", "5 minutes", "--to", str(tmp_path), "--user", "spark"], capsys)
    assert "systemctl link" in said and "linger" not in said


def test_it_says_how_to_start_a_line_of_cron(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _said(["--every", "5 minutes", "--cron", "--to", str(tmp_path)], capsys)
    assert f"(crontab -l; cat {tmp_path}/tidelog-archive-orders.cron) | crontab -" in said


def test_an_interval_that_cron_lacks_is_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "schedule", "--every", "7 minutes", "--cron", *COMMAND]) == 2
    assert "without --cron, a systemd timer allows any time." in capsys.readouterr().err
