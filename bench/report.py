"""What a bench found: rows of figures, checks against the targets, and their tables or JSON.

Owns presentation only. A check whose peer was not running has no value and no verdict.
"""

import json
import platform
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a row: its key in the JSON, its heading, and how it is written."""

    key: str
    heading: str
    spec: str = ",.1f"


@dataclass(slots=True)
class Check:
    """One target of the project: a figure, a bound, and whether it is kept."""

    name: str
    value: float | None
    bound: float | None = None  # None: worth knowing, no target
    at_least: bool = True  # else at most
    unit: str = "×"

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "no peer"
        if self.bound is None:
            return "–"
        kept = self.value >= self.bound if self.at_least else self.value <= self.bound
        return "ok" if kept else "missed"

    @property
    def target(self) -> str:
        if self.bound is None:
            return "–"
        bound = f"{self.bound:,g}" if self.bound >= 100 else f"{self.bound:.3g}"
        return f"{'≥' if self.at_least else '≤'} {bound} {self.unit}"


@dataclass(slots=True)
class Report:
    """Everything one bench has to say."""

    title: str
    columns: Sequence[Column]
    labels: Sequence[str]  # headings of the columns that name a row
    rows: list[dict[str, Any]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    decides: bool = False  # A missed target is a failure of the bench, not only with --check.

    @property
    def is_missed(self) -> bool:
        return any(check.verdict == "missed" for check in self.checks)

    def value(self, key: str, **where: Any) -> float | None:
        """The figure ``key`` of the row with these labels; ``None`` when there is no such row."""
        for row in self.rows:
            if all(row.get(name) == wanted for name, wanted in where.items()):
                found = row.get(key)
                return None if found is None else float(found)
        return None

    def ratio(self, key: str, over: dict[str, Any], under: dict[str, Any]) -> float | None:
        above, below = self.value(key, **over), self.value(key, **under)
        return above / below if above is not None and below else None

    def drop_targets(self) -> None:
        """Keep the ratios without a verdict, for a run that is not the one the targets speak of."""
        for check in self.checks:
            check.bound = None

    def as_json(self) -> dict[str, Any]:
        checks = [
            {"name": c.name, "value": c.value, "target": c.target, "verdict": c.verdict} for c in self.checks
        ]
        return {"title": self.title, "rows": self.rows, "checks": checks, "notes": self.notes}


def merge_rounds(rounds: Iterable[dict[str, float | None]]) -> dict[str, float | None]:
    """The median of every figure over the rounds that have it."""
    collected: dict[str, list[float]] = {}
    for figures in rounds:
        for key, value in figures.items():
            collected.setdefault(key, [])
            if value is not None:
                collected[key].append(value)
    return {key: statistics.median(values) if values else None for key, values in collected.items()}


def show(reports: Sequence[Report], console: Console) -> None:
    for report in reports:
        console.print(_figures(report))
        if report.checks:
            console.print(_checks(report))
        for note in report.notes:
            console.print(f"[dim]{note}[/dim]")
        console.print()


def _figures(report: Report) -> Table:
    table = Table(title=report.title, title_justify="left", header_style="bold")
    for label in report.labels:
        table.add_column(label)
    for column in report.columns:
        table.add_column(column.heading, justify="right")
    previous: list[Any] = []
    for row in report.rows:
        names = [row[label] for label in report.labels]
        if previous and names[:-1] != previous[:-1]:
            table.add_section()
        previous = names
        table.add_row(
            *map(str, names), *(_written(row.get(column.key), column.spec) for column in report.columns)
        )
    return table


def _written(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def _checks(report: Report) -> Table:
    table = Table(title=f"{report.title}: targets", title_justify="left", header_style="bold")
    for heading in ("target", "measured", "wanted", "verdict"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    styles = {"ok": "green", "missed": "bold red", "no peer": "dim", "–": ""}
    for check in report.checks:
        measured = "–" if check.value is None else f"{check.value:,.2f} {check.unit}"
        table.add_row(check.name, measured, check.target, check.verdict, style=styles[check.verdict])
    return table


def machine() -> dict[str, Any]:
    """What the figures were measured on; no figure means anything without it."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": model,
        "cores": len(list(Path("/sys/devices/system/cpu").glob("cpu[0-9]*"))),
        "memory_gb": round(memory_kb * 1024 / 1e9, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": float(Path("/proc/loadavg").read_text().split()[0]),
    }


def to_json(reports: Sequence[Report], settings: dict[str, Any]) -> str:
    body = {"machine": machine(), "settings": settings, "benches": [report.as_json() for report in reports]}
    return json.dumps(body, indent=2)
