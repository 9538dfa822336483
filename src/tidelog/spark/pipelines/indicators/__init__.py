"""The three indicators from the records of an experiment: performance, consistency and availability, mode by
mode.

Owns the report: tables as values and as CSV, pictures, and one HTML page. The input is described in
:mod:`tidelog.lab.history`, the meaning of each figure in :mod:`.measures`.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.indicators import measures
from tidelog.spark.pipelines.indicators.figures import (
    FaultFigures,
    IndicatorsReport,
    RunSummary,
    StepFigures,
    worst_runs,
)
from tidelog.spark.pipelines.indicators.history import History, read_history
from tidelog.spark.pipelines.indicators.page import notes, page
from tidelog.spark.pipelines.indicators.pictures import DARK, LIGHT, pictures
from tidelog.spark.pipelines.running import Progress, Tell, discard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FaultFigures", "History", "Indicators", "IndicatorsReport", "RunSummary", "StepFigures", "indicators",
    "notes", "read_history", "write_report",
]  # fmt: skip

DRAWN_MAX = 20  # runs with pictures; of more than that, the worst
STEPS = 100  # of the longest run, unless the step is given
_COUNTS = (
    "received", "lost", "duplicated", "reordered", "unacknowledged", "misplaced", "vanished",
    "torn_transactions", "skipped", "lost_commits",
)  # fmt: skip
_NICE_STEPS_S = tuple(digit * 10.0**power for power in range(-2, 6) for digit in (1, 2, 5))


@dataclass(frozen=True, slots=True)
class Indicators:
    histories: list[str]  # files or directories
    step_s: float | None = None  # of the figures over time; None: so that the longest run has some 100

    def __post_init__(self) -> None:
        if self.step_s is not None and self.step_s < 0.001:
            raise OptionError(f"The step is {self.step_s:g} s; allowed: 0.001 and more.")


def indicators(spark: "SparkSession", job: Indicators, *, tell: Tell = discard) -> IndicatorsReport:
    """Compute all figures of all runs in the histories."""
    history = read_history(spark, job.histories)
    try:
        tell(Progress(history.count, 0.0, 0, "events"))
        return _report(spark, history, job.step_s)
    finally:
        history.release()


def _report(spark: "SparkSession", history: History, step_s: float | None) -> IndicatorsReport:
    totals = [row.asDict(recursive=True) for row in measures.overall(spark, history.events).collect()]
    struck = [row.asDict() for row in measures.downtime(spark, history.events).collect()]
    begins, ends = _spans(totals, struck)
    consistent = {_key(row): row.asDict() for row in measures.consistency(spark, history.events).collect()}
    for row in measures.account(spark, history.events).collect():
        consistent.setdefault(_key(row), {}).update(row.asDict())
    faults = [_fault(row, begins[row["run"]]) for row in struck]
    of_run: dict[tuple[str, str], list[FaultFigures]] = {}
    for fault in faults:
        of_run.setdefault((fault.run, fault.mode), []).append(fault)
    runs = [_summary(row, consistent.get(_key(row), {}), of_run.get(_key(row), [])) for row in totals]
    drawn = worst_runs(runs, DRAWN_MAX) if len(begins) > DRAWN_MAX else None
    shown = [row for row in totals if drawn is None or row["run"] in drawn]
    names = {row["run"] for row in shown}
    step = step_s or _nice_step_s(max((ends[run] - begins[run] for run in names), default=0) / 1e6)
    found = _by_key(measures.over_time(spark, history.of_runs(drawn), step))
    over_time = [
        one for row in shown for one in _steps(row, found.get(_key(row), {}), step, begins[row["run"]])
    ]
    return IndicatorsReport(runs, over_time, faults, history.count, history.torn_lines, drawn)


def write_report(report: IndicatorsReport, directory: str, title: str = "Indicators") -> list[str]:
    """CSV tables, PNG pictures and index.html; their paths, that of the page last."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    written = [
        _csv(target / "runs.csv", RunSummary, report.runs),
        _csv(target / "over_time.csv", StepFigures, report.over_time),
        _csv(target / "faults.csv", FaultFigures, report.faults),
    ]
    shown = report.on_the_page()
    drawn = pictures(shown, LIGHT)
    for name, data in drawn.items():
        (target / name).write_bytes(data)
        written.append(target / name)
    (target / "index.html").write_text(page(title, report, drawn, pictures(shown, DARK)), encoding="utf-8")
    return [str(path) for path in (*written, target / "index.html")]


def _csv(path: Path, kind: type, rows: Sequence[Any]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [one.name for one in fields(kind)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return path


def _key(row: Any) -> tuple[str, str]:
    return row["run"], row["mode"]


def _by_key(table: "DataFrame") -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    """The rows of each mode of each run, by step."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for row in table.collect():
        found.setdefault(_key(row), {})[row["step"]] = row.asDict(recursive=True)
    return found


def _spans(
    totals: Sequence[Mapping[str, Any]], struck: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, int], dict[str, int]]:
    """First and last acknowledgement of each run; of one without any, its first fault."""
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for row in totals:
        if row["acknowledged"]:
            begins[row["run"]] = min(begins.get(row["run"], row["begin_us"]), row["begin_us"])
            ends[row["run"]] = max(ends.get(row["run"], row["end_us"]), row["end_us"])
    for row in (*struck, *totals):
        begins.setdefault(row["run"], row.get("fault_us") or 0)
        ends.setdefault(row["run"], begins[row["run"]])
    return begins, ends


def _nice_step_s(seconds: float) -> float:
    return next((step for step in _NICE_STEPS_S if step >= seconds / STEPS), _NICE_STEPS_S[-1])


def _latencies(row: Mapping[str, Any]) -> dict[str, Any]:
    p50, p99, p999 = row["p"] or (None, None, None)
    found = {"p50_ms": p50, "p99_ms": p99, "p999_ms": p999, "max_ms": row["slowest"]}
    return {name: None if value is None else value / 1e3 for name, value in found.items()}


def _summary(row: Mapping[str, Any], found: Mapping[str, Any], faults: Sequence[FaultFigures]) -> RunSummary:
    acknowledged = row["acknowledged"]
    seconds = (row["end_us"] - row["begin_us"]) / 1e6 if acknowledged else 0.0
    pauses = [one.downtime_ms for one in faults if one.downtime_ms is not None]
    counts: dict[str, Any] = {name: found.get(name) or 0 for name in _COUNTS}
    return RunSummary(
        run=row["run"],
        mode=row["mode"],
        acknowledged=acknowledged,
        failed=row["failed"],
        seconds=seconds,
        records_per_s=acknowledged / (seconds or 1.0),
        mb_per_s=(row["bytes"] or 0) / (seconds or 1.0) / 1e6,
        faults=len(faults),
        downtime_ms=max(pauses, default=None),
        is_over=all(one.is_over for one in faults),
        **counts,
        **_latencies(row),
    )


def _steps(
    row: Mapping[str, Any], found: Mapping[int, Mapping[str, Any]], step_s: float, begin_us: int
) -> list[StepFigures]:
    """From the first to the last; a step without acknowledgements is included: otherwise it would be a
    straight line between its neighbours.
    """
    if not found:
        return []
    end_s = (row["end_us"] - begin_us) / 1e6
    nothing = {"acknowledged": 0, "bytes": 0, "p": None, "slowest": None}
    steps = []
    for number in range(min(found), max(found) + 1):
        figures = found.get(number, nothing)
        second = number * step_s
        seconds = min(step_s, max(end_s - second, 0.0)) or step_s
        steps.append(
            StepFigures(
                run=row["run"],
                mode=row["mode"],
                second=round(second, 6),
                seconds=round(seconds, 6),
                acknowledged=figures["acknowledged"],
                records_per_s=figures["acknowledged"] / seconds,
                mb_per_s=(figures["bytes"] or 0) / seconds / 1e6,
                **_latencies(figures),
            )
        )
    return steps


def _fault(row: Mapping[str, Any], begin_us: int) -> FaultFigures:
    healed_us = row["healed_us"]
    return FaultFigures(
        run=row["run"],
        mode=row["mode"],
        fault=row["name"] or "fault",
        second=(row["fault_us"] - begin_us) / 1e6,
        healed_second=None if healed_us is None else (healed_us - begin_us) / 1e6,
        downtime_ms=None if row["downtime_us"] is None else row["downtime_us"] / 1e3,
        partition=row["partition"],
        is_over=row["is_over"] is not False,
    )
