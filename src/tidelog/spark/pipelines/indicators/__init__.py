"""The three indicators from the records of an experiment: performance, consistency and availability, run by
run.

Owns the report: tables as values and as CSV, pictures, and one HTML page. The input is described in
:mod:`.history`, the meaning of each figure in :mod:`.measures`.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.indicators import measures
from tidelog.spark.pipelines.indicators.history import HistoryWriter, read_history
from tidelog.spark.pipelines.indicators.page import page, pictures
from tidelog.spark.pipelines.running import Progress, Tell, tell_nobody

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["HistoryWriter", "Indicators", "IndicatorsReport", "indicators", "read_history", "write_report"]


@dataclass(frozen=True, slots=True)
class Indicators:
    histories: list[str]  # files or directories
    step_s: float = 1.0  # of the figures over time

    def __post_init__(self) -> None:
        if self.step_s <= 0:
            raise OptionError(f"The step is {self.step_s:g} s; allowed: more than 0.")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run in one line."""

    run: str
    mode: str
    acknowledged: int
    records_per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    received: int
    lost: int
    duplicated: int
    reordered: int
    downtime_ms: float | None  # the longest of all faults; None: there were none


@dataclass(frozen=True, slots=True)
class IndicatorsReport:
    runs: list[RunSummary]
    over_time: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def indicators(spark: "SparkSession", job: Indicators, *, tell: Tell = tell_nobody) -> IndicatorsReport:
    """Compute all figures of all runs in the histories."""
    events = read_history(spark, job.histories).persist()
    try:
        count = events.count()
        tell(Progress(count, 0.0, 0, "events"))
        if not count:
            raise OptionError(f"There are no events in {', '.join(job.histories)}.")
        consistent = _by_run(measures.consistency(spark, events))
        faults = [row.asDict() for row in measures.downtime(spark, events).collect()]
        runs = [
            _summary(row.asDict(recursive=True), consistent, faults)
            for row in measures.overall(spark, events).collect()
        ]
        starts = _by_run(events.where("kind = 'acknowledged'").groupBy("run").agg({"time_us": "min"}))
        over_time = [
            _step(row.asDict(recursive=True), job.step_s, starts)
            for row in measures.over_time(spark, events, job.step_s).collect()
        ]
        return IndicatorsReport(sorted(runs, key=lambda one: one.run), over_time, faults)
    finally:
        events.unpersist()


def write_report(report: IndicatorsReport, directory: str, title: str = "Indicators") -> list[str]:
    """CSV tables, PNG pictures and index.html; their paths."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    runs = [asdict(one) for one in report.runs]
    images = pictures(report.over_time, report.faults)
    written = [_csv(target / f"{name}.csv", rows) for name, rows in _tables(report, runs).items()]
    for name, data in images.items():
        (target / name).write_bytes(data)
        written.append(target / name)
    shown = {"Runs": runs, "Faults": report.faults}
    (target / "index.html").write_text(page(title, shown, images))
    return [str(path) for path in (*written, target / "index.html")]


def _tables(report: IndicatorsReport, runs: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {"runs": runs, "over_time": report.over_time, "faults": report.faults}


def _csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["none"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def _by_run(table: "DataFrame") -> dict[str, dict[str, Any]]:
    return {row["run"]: row.asDict() for row in table.collect()}


def _latencies(row: Mapping[str, Any]) -> dict[str, float]:
    p50, p99, p999 = row["p"] or (0, 0, 0)
    slowest = row["slowest"] or 0
    return {"p50_ms": p50 / 1e3, "p99_ms": p99 / 1e3, "p999_ms": p999 / 1e3, "max_ms": slowest / 1e3}


def _summary(
    row: Mapping[str, Any], consistent: Mapping[str, Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]
) -> RunSummary:
    seconds = float(row["seconds"]) or 1.0
    # A run of which nothing was received has lost everything.
    nothing = {"received": 0, "duplicated": 0, "reordered": 0, "lost": row["acknowledged"]}
    found = consistent.get(row["run"], nothing)
    pauses = [
        one["downtime_ms"] for one in faults if one["run"] == row["run"] and one["downtime_ms"] is not None
    ]
    return RunSummary(
        run=row["run"],
        mode=row["mode"],
        acknowledged=row["acknowledged"],
        records_per_s=row["acknowledged"] / seconds,
        mb_per_s=(row["bytes"] or 0) / seconds / 1e6,
        **_latencies(row),
        received=found["received"],
        lost=found["lost"],
        duplicated=found["duplicated"],
        reordered=found["reordered"],
        downtime_ms=max((float(one) for one in pauses), default=None),
    )


def _step(row: Mapping[str, Any], step_s: float, starts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "run": row["run"],
        "mode": row["mode"],
        "second": float(row["second"]),
        "records_per_s": row["acknowledged"] / step_s,
        "mb_per_s": (row["bytes"] or 0) / step_s / 1e6,
        **_latencies(row),
        "start_us": starts[row["run"]]["min(time_us)"],
    }
