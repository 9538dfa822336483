"""Exit codes and sentences of ``tidelog lab``; the run itself is made up."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.lab import running
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, NOT_RUN, Cell, Results

Run = Callable[..., tuple[int, str, str]]


def cell(verdict: str, sentence: str = "So it was.") -> Cell:
    return Cell(experiment="x", title="t", target="tidelog", mode="isr", verdict=verdict, sentence=sentence)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def made(
        *cells: Cell, failures: tuple[str, ...] = (), interrupted: bool = False, words: tuple[str, ...] = ()
    ) -> tuple[int, str, str]:
        results = Results(started="", seconds=1.0, is_complete=not (failures or interrupted), cells=cells)
        outcome = running.Outcome(results, failures, interrupted)
        monkeypatch.setattr(running, "run_all", lambda jobs, **_: outcome)
        code = main(["lab", "run", "leader-killed", *words])
        return (code, *capsys.readouterr())

    return made


def test_kept_and_allowed_losses_are_fine(run: Run) -> None:
    code, out, err = run(cell(KEPT), cell(ALLOWED))
    assert code == 0 and "So it was." in out and err == ""


def test_a_broken_promise_has_exit_code_1(run: Run) -> None:
    code, _, err = run(cell(KEPT), cell(BROKEN))
    assert (code, err) == (1, "tidelog: A promise was broken; see above.\n")


def test_a_run_that_failed_has_exit_code_1_and_its_reason(run: Run) -> None:
    code, out, err = run(cell(KEPT), failures=("x: The cluster does not answer.",))
    assert (code, err) == (1, "tidelog: x: The cluster does not answer.\n")
    assert "Not complete" in out


def test_nothing_run_is_not_kept(run: Run) -> None:
    code, _, err = run(cell(NOT_RUN, "Not run: why."))
    assert (code, err) == (1, "tidelog: Not run: why.\n")


def test_ctrl_c_has_its_own_exit_code(run: Run) -> None:
    code, out, _ = run(cell(BROKEN), interrupted=True)
    assert code == 130 and "Not complete" in out


def test_places_that_cannot_be_written_are_told_before_the_run(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, out, err = run(words=("--history", str(file)))
    assert (code, out, err) == (1, "", f"tidelog: Histories cannot be kept in {file}: File exists.\n")
    code, out, err = run(words=("--report", str(file / "x.html")))
    assert (code, out) == (1, "") and err.startswith(f"tidelog: The report {file}/x.html cannot be written: ")
    code, _, err = run(words=("--report", str(tmp_path)))
    assert code == 2 and "is no name of a report" in err
