"""What ``tidelog pipeline indicators`` prints: a line for each mode of each run, and what to know before
believing it.
"""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidelog.cli.tables import print_table

if TYPE_CHECKING:
    from tidelog.spark.pipelines import IndicatorsReport

_COLUMNS = {
    "run": "run", "mode": "mode", "records_per_s": "records/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms",
    "max_ms": "max ms", "acknowledged": "acknowledged", "failed": "failed", "lost": "lost",
    "duplicated": "duplicated", "reordered": "reordered", "downtime_ms": "downtime ms",
}  # fmt: skip


def print_indicators(report: "IndicatorsReport") -> None:
    from tidelog.spark.pipelines.indicators import notes

    rows = [{name: _figure(value) for name, value in asdict(one).items()} for one in report.runs]
    print_table(rows, _COLUMNS, right=[*_COLUMNS][2:])
    for note in notes(report):
        print(note, file=sys.stderr)


def _figure(value: Any) -> Any:
    """With as many digits as mean something."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
