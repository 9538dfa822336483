"""How times without writes are spread: a median hides one slow round in twenty, and the worst says only that
there was one.
"""

from collections.abc import Sequence
from typing import Any

from bench.report import Column

SLOW_MS = 300
BOUNDS_MS = (50, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000)

COLUMNS = (
    Column("p50_ms", "p50 ms", ",.0f"),
    Column("p90_ms", "p90 ms", ",.0f"),
    Column("p99_ms", "p99 ms", ",.0f"),
    Column("worst_ms", "worst ms", ",.0f"),
    Column("slow", f"runs > {SLOW_MS} ms", ",.0f"),
)


def spread(times_ms: Sequence[float]) -> dict[str, Any]:
    """The figures of :data:`COLUMNS`, and every time, in order of the runs."""
    if not times_ms:
        return {}
    return {
        "p50_ms": percentile(times_ms, 50),
        "p90_ms": percentile(times_ms, 90),
        "p99_ms": percentile(times_ms, 99),
        "worst_ms": max(times_ms),
        "slow": sum(time_ms > SLOW_MS for time_ms in times_ms),
        "gaps_ms": [round(time_ms) for time_ms in times_ms],
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Between neighbours where it falls between two runs."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def histogram(times_ms: Sequence[float]) -> str:
    """How many runs took how long, in one line: ``≤50: 3, ≤100: 12, ≤150: 4``."""
    counts: dict[str, int] = {}
    for time_ms in sorted(times_ms):
        bound = next((f"≤{bound:,}" for bound in BOUNDS_MS if time_ms <= bound), f">{BOUNDS_MS[-1]:,}")
        counts[bound] = counts.get(bound, 0) + 1
    return ", ".join(f"{bound}: {count}" for bound, count in counts.items())
