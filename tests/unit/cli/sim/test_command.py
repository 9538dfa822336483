"""``tidelog sim``: what it prints and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog.cli.app import app
from tidelog.cli.failure import CommandFailed
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.controllers_run import ControllersSimulation
from tidelog.sim.run import Simulation

pytestmark = pytest.mark.slow


def sim(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["sim", *arguments])
    return result.exit_code, result.output


def test_one_seed_shows_its_trace_and_a_summary() -> None:
    code, output = sim("--seed", "3", "--mode", "quorum", "--trace", "5")
    lines = output.splitlines()
    assert code == 0
    assert len(lines) == 6
    summary = json.loads(lines[-1])
    assert summary["runs"] == 1
    assert summary["failed"] == 0
    assert len(summary["digest"]) == 16


def test_a_failure_names_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(simulation: Simulation) -> Any:
        raise Violation("the watermark went back")

    monkeypatch.setattr(Simulation, "run", broken)
    code, output = sim("--seeds", "2", "--mode", "isr")
    assert code != 0
    assert "isr, seed 1: Violation: the watermark went back" in output
    assert "tidelog sim --seed 1 --mode isr" in output
    [summary] = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert (summary["runs"], summary["failed"]) == (2, 2)


def test_a_story_is_told() -> None:
    code, output = sim("--story", "isr_follower_killed")
    assert code == 0
    assert "kill B" in output


def test_stories_are_named() -> None:
    code, output = sim("--story", "all")
    assert code == 0
    assert "isr_leader_killed" in output.split()


@pytest.mark.parametrize("arguments", [("--mode", "paxos"), ("--story", "nobody_knows")])
def test_what_is_not_there_is_refused_in_a_sentence(arguments: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["sim", *arguments])
    assert isinstance(result.exception, CommandFailed)
    assert "Unknown" in str(result.exception)


def test_a_failure_is_shrunk_and_its_report_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = ControllersSimulation.run

    def broken(simulation: ControllersSimulation) -> Any:
        result = run(simulation)
        if any(" fault 2:" in line for line in simulation.nemesis.told):
            raise Violation("the second fault was too much")
        return result

    monkeypatch.setattr(ControllersSimulation, "run", broken)
    words = ("--mode", "controllers", "--plan", "faults_ms=4000", "--first", "4", "--seeds", "1")
    code, output = sim(*words, "--report", str(tmp_path))
    assert code != 0
    story = (tmp_path / "stories" / "controllers-4.txt").read_text(encoding="utf-8")
    assert "--only-faults 2" in story
    assert story in output
    assert story.endswith("Violation: the second fault was too much\n")
    assert json.loads(output.splitlines()[-1])["failed"] == 1
    # The failure is in the books; the next start has nothing to do, and still ends with the failure.
    code, output = sim(*words, "--report", str(tmp_path))
    assert code != 0
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("--plan", "nothing=1"), ("--only-faults", "a,b")])
def test_a_plan_that_cannot_be_is_refused_in_a_sentence(arguments: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["sim", "--mode", "isr", *arguments])
    assert isinstance(result.exception, CommandFailed)


def test_a_hunt_ends_when_enough_faults_have_struck() -> None:
    code, output = sim("--mode", "controllers", "--faults", "200")
    summary = json.loads(output.splitlines()[-1])
    assert code == 0
    assert summary["faults"] >= 200
    assert summary["runs"] >= 2
