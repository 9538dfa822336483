"""The directory of an unattended hunt."""

import json
from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.sim import report as sim_report
from tidelog.cli.sim.report import Report
from tidelog.sim.attempt import Outcome

pytestmark = pytest.mark.slow


def test_what_was_run_is_known_again(tmp_path: Path) -> None:
    report = Report(tmp_path)
    assert list(report.finished()) == []
    outcomes = [Outcome("isr", 7, digest="d", faults=3), Outcome("isr", 8, "Violation: lost", drawn=4)]
    for number, outcome in enumerate(outcomes):
        report.add(number, outcome, "tidelog sim --seed 8")
    report.close()
    again = Report(tmp_path)
    assert [outcome for _, outcome in again.finished()] == outcomes
    assert again.lacks_story(outcomes[1])
    again.add_story(outcomes[1], ["one fault"])
    assert not again.lacks_story(outcomes[1])
    again.close()
    assert "tidelog sim --seed 8" in (tmp_path / "failures" / "isr-8.txt").read_text()


def test_a_torn_line_is_a_run_that_is_done_again(tmp_path: Path) -> None:
    report = Report(tmp_path)
    list(report.finished())
    report.add(0, Outcome("isr", 7), "")
    report.close()
    with (tmp_path / "runs.jsonl").open("ab") as runs:
        runs.write(b'[1, "isr", 8')
    again = Report(tmp_path)
    assert [number for number, _ in again.finished()] == [0]
    again.add(1, Outcome("isr", 8), "")
    again.close()
    assert [json.loads(line)[0] for line in (tmp_path / "runs.jsonl").open()] == [0, 1]


def test_one_process_at_a_time_writes_a_report(tmp_path: Path) -> None:
    report = Report(tmp_path)
    with pytest.raises(CommandFailed, match="Another process"):
        Report(tmp_path)
    report.close()
    Report(tmp_path).close()


def test_other_code_or_modes_need_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(tmp_path)
    assert report.agree({"first": 5, "modes": ["isr"]})["first"] == 5
    assert report.agree({"first": 9, "modes": ["isr"]})["first"] == 5
    with pytest.raises(CommandFailed, match="another modes"):
        report.agree({"first": 5, "modes": ["quorum"]})
    monkeypatch.setattr(sim_report, "code_digest", lambda: "changed")
    with pytest.raises(CommandFailed, match="another code"):
        report.agree({"first": 5, "modes": ["isr"]})
    report.close()
