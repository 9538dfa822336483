"""What a run of the lab leaves on the terminal and in files, and which exit code it ends with."""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.tables import print_table
from tidelog.lab.report.document import to_json, write
from tidelog.lab.results import BROKEN, NOT_RUN, Cell, Latency, Results

COLUMNS = {
    "experiment": "experiment",
    "mode": "mode",
    "target": "target",
    "verdict": "verdict",
    "rounds": "rounds",
    "acknowledged": "acknowledged",
    "lost": "lost",
    "twice": "twice",
    "disordered": "out of order",
    "writes": "no writes s",
    "reads": "no reads s",
    "redundant": "in sync after s",
    "latency": "p99 ms before / during / after",
}
SUFFIXES = (".html", ".json")
LEFT = ("experiment", "mode", "target", "verdict")


def show(results: Results, *, json: bool, report: Path | None) -> None:
    if json:
        sys.stdout.buffer.write(to_json(results))
    else:
        print_cells(results.cells)
        if not results.is_complete:
            print("\nNot complete: this is what there was when the run ended.")
    if report is not None:  # last: if it cannot be written, the results are there all the same
        _write(results, report)


def _write(results: Results, path: Path) -> None:
    try:
        written = write(results, path)
    except OSError as error:
        raise CommandFailed(f"The report {path} cannot be written: {error.strerror or error}.") from error
    print(f"Report: {', '.join(map(str, written))}", file=sys.stderr)


def check_report(path: Path | None) -> None:
    """Before the run, not after it."""
    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise InvalidCommandLine(
            f"{path} is no name of a report; use one that ends in {' or '.join(SUFFIXES)}."
        )
    parent = path.absolute().parent
    try:
        is_there, is_directory = path.exists(), path.is_dir()
        if is_directory or not parent.is_dir():
            raise CommandFailed(f"The report {path} cannot be written: there is no such directory.")
    except OSError as error:
        raise CommandFailed(f"The report {path} cannot be written: {error.strerror}.") from error
    if not os.access(path if is_there else parent, os.W_OK):
        raise CommandFailed(f"The report {path} cannot be written: no permission.")


def check_history(path: Path | None) -> None:
    """The same for histories."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CommandFailed(f"Histories cannot be kept in {path}: {error.strerror or error}.") from error


def print_cells(cells: Iterable[Cell]) -> None:
    """Times are those of the worst round, the median in parentheses."""
    shown = list(cells)
    rows = [_row(cell) for cell in shown]
    columns = dict(COLUMNS)
    if len({cell.target for cell in shown}) == 1:
        del columns["target"]
    print_table(rows, columns, right=[key for key in columns if key not in LEFT])
    for cell in shown:
        print(f"\n{cell.experiment}, {cell.mode}, {cell.target}: {cell.sentence or 'Not run to its end.'}")
        for sentence in cell.promise:
            print(f"  promised: {sentence}")
        for example in cell.worst.examples:
            print(f"  example: {example}")


def _row(cell: Cell) -> dict[str, Any]:
    worst, median = cell.worst, cell.median
    late = [worst.before, worst.during, worst.after]
    return {
        "experiment": cell.experiment,
        "mode": cell.mode,
        "target": cell.target,
        "verdict": cell.verdict,
        "rounds": len(cell.rounds),
        "acknowledged": sum(each.figures.acknowledged for each in cell.rounds),
        "lost": worst.lost,
        "twice": worst.doubled,
        "disordered": worst.disordered,
        "writes": _pair(worst.writes_stood_still_s, median.writes_stood_still_s),
        "reads": _pair(worst.reads_stood_still_s, median.reads_stood_still_s),
        "redundant": _pair(worst.redundant_after_s, median.redundant_after_s),
        "latency": " / ".join(_p99(each) for each in late),
    }


def _pair(worst: float | None, median: float | None) -> str:
    return "–" if worst is None or median is None else f"{worst:.1f} ({median:.1f})"


def _p99(latency: Latency) -> str:
    return "–" if latency.p99 is None else f"{latency.p99:.0f}"


def not_run(results: Results) -> str:
    """Why nothing at all was run; "": something was."""
    if any(cell.verdict != NOT_RUN for cell in results.cells):
        return ""
    return next((cell.sentence for cell in results.cells), "There was nothing to run.")


def exit_code(results: Results) -> int:
    return 1 if any(cell.verdict == BROKEN for cell in results.cells) else 0
