"""Schedules: what systemd and cron make of them is the command as it was typed."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.pipeline.units import Job, ScheduleError, cron_line, parse_when, service, timer

NASTY = [
    "/opt/py thon",
    "-c",
    "100% sure",
    "$HOME",
    "it's",
    'a "b"',
    "back\\slash",
    "ü",
    "*",
    "a;b",
    "%h",
    "~",
    "",
]
JOB = Job("tidelog-archive-orders", NASTY, "/data/my files", {"JAVA_HOME": "/opt/ja va%"})


def systemd_words(text: str) -> list[str]:
    """A command line as systemd.service(5) and systemd.syntax(7) describe it."""
    words = []
    for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text):
        unescaped = re.sub(r"\\(.)", lambda found: {"t": "\t"}.get(found[1], found[1]), quoted)
        word = plain or unescaped
        words.append(word.replace("$$", "$").replace("%%", "%"))
    return words


def test_systemd_gets_the_words_as_they_were_typed() -> None:
    parsed = configparser.ConfigParser(interpolation=None, strict=True)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(service(JOB))
    assert systemd_words(parsed["Service"]["ExecStart"]) == NASTY
    assert systemd_words(parsed["Service"]["Environment"]) == ["JAVA_HOME=/opt/ja va%"]
    assert parsed["Service"]["WorkingDirectory"] == "/data/my files"
    # A second SIGTERM to its Java process would break the clean stop.
    assert parsed["Service"]["KillMode"] == "mixed"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.slow
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    job = Job("tidelog-archive-orders", [sys.executable, "-m", "tidelog", *NASTY[2:]], str(tmp_path))
    for number, when in enumerate((parse_when("5 minutes", None), parse_when(None, "03:30"))):
        directory = tmp_path / str(number)
        directory.mkdir()
        files = {"service": service(job), "timer": timer(job, when)}
        paths = [directory / f"{job.name}.{kind}" for kind in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.write_text(text)
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        about_ours = [line for line in checked.stderr.splitlines() if job.name in line]
        assert not about_ours, checked.stderr


def test_cron_runs_the_words_as_they_were_typed(tmp_path: Path) -> None:
    echo = "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['JAVA_HOME'], sys.argv[1:]]))"
    directory = tmp_path / "it's 100%"
    directory.mkdir()
    job = Job("job", [sys.executable, "-c", echo, *NASTY], str(directory), {"JAVA_HOME": "/opt/ja va%"})
    fields, command = re.fullmatch(r"((?:\S+ ){5})(.*)\n", cron_line(job, parse_when("5m", None))).groups()  # type: ignore[union-attr]
    assert fields.split() == ["*/5", "*", "*", "*", "*"]
    # As crontab(5) says: an unescaped % ends the command, an escaped one is a %.
    assert not re.search(r"(?<!\\)%", command)
    shell, logged = command.replace("\\%", "%").rsplit(" 2>&1 | ", 1)
    assert logged == "logger -t job"
    ran = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout) == [str(directory), "/opt/ja va%", NASTY]


@pytest.mark.parametrize(
    ("every", "fields"),
    [("1 minute", "* * * * *"), ("15m", "*/15 * * * *"), ("1 hour", "0 * * * *"), ("6h", "0 */6 * * *"),
     ("60 minutes", "0 * * * *"), ("1 day", "0 0 * * *"), ("24 hours", "0 0 * * *")],
)  # fmt: skip
def test_intervals_of_cron(every: str, fields: str) -> None:
    assert cron_line(JOB, parse_when(every, None)).startswith(f"{fields} cd ")


@pytest.mark.parametrize("every", ["7 minutes", "90m", "30 seconds", "2 days"])
def test_intervals_that_cron_does_not_have(every: str) -> None:
    with pytest.raises(ScheduleError, match="cron cannot"):
        cron_line(JOB, parse_when(every, None))
    assert f"OnUnitInactiveSec={parse_when(every, None).every_s}" in timer(JOB, parse_when(every, None))


@pytest.mark.parametrize(
    ("every", "at", "said"),
    [(None, None, "Give --every"), ("1h", "03:30", "Give --every"), ("soon", None, "no time"),
     ("0m", None, "no time"), (None, "24:00", "no time of day"), ("5 lightyears", None, "no time")],
)  # fmt: skip
def test_times_that_are_none(every: str | None, at: str | None, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        parse_when(every, at)


def test_what_no_scheduler_takes_is_refused() -> None:
    with pytest.raises(ScheduleError, match="line break"):
        Job("job", ["a\nb"], "/")
    with pytest.raises(ScheduleError, match="name"):
        Job("no good", [], "/")


ARCHIVE = ("archive", "orders", "--to", "/data/orders")


def test_the_command_writes_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pipeline", "schedule", "--every", "5 minutes", "--to", str(tmp_path / "units"), "--", *ARCHIVE]
    assert main(words) == 0
    unit = (tmp_path / "units" / "tidelog-archive-orders.service").read_text()
    assert f"ExecStart={sys.executable} -m tidelog pipeline {' '.join(ARCHIVE)}\n" in unit
    assert f"WorkingDirectory={Path.cwd()}\n" in unit
    assert "enable --now tidelog-archive-orders.timer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--every", "5m", "--", "indicators", "x"], 2, "There is nothing to schedule in 'indicators'"),
        (["--every", "5m", "--", *ARCHIVE, "--every", "1 minute"], 2, "takes no --every"),
        (["--every", "5m", "--", "archive", "orders", "--too", "x"], 2, "--too"),
        (["--every", "5m", "--", "archive", "orders"], 2, "--to"),
        (["--cron", "--every", "7m", "--", *ARCHIVE], 2, "cron cannot"),
        (["--", *ARCHIVE], 2, "Give --every"),
    ],
)
def test_mistakes_show_before_the_first_run(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "schedule", *words]) == code
    assert said in capsys.readouterr().err
