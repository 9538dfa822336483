"""The figures of a report as values, before formatting."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One mode of one run in one line."""

    run: str
    mode: str
    acknowledged: int
    failed: int
    seconds: float  # from the first acknowledgement to the last
    records_per_s: float
    mb_per_s: float
    p50_ms: float | None  # None: nothing was acknowledged, or the sending time is unknown
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None
    received: int  # different records
    lost: int
    duplicated: int
    reordered: int
    faults: int
    downtime_ms: float | None  # the longest of all faults; None: there were none, or nothing was written
    is_over: bool  # whether writes were acknowledged again after every fault
    unacknowledged: int = 0  # received all the same
    misplaced: int = 0
    vanished: int = 0  # read by a consumer group, and gone at the end
    torn_transactions: int = 0
    lost_commits: int = 0
    skipped: int = 0  # by a consumer group that read later records


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step of time of one mode in one run."""

    run: str
    mode: str
    second: float  # where the step begins, from the first acknowledgement of the run
    seconds: float  # how long it is; the last one ends with the run
    acknowledged: int
    records_per_s: float
    mb_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """One fault in one mode."""

    run: str
    mode: str
    fault: str
    second: float  # from the first acknowledgement of the run
    healed_second: float | None
    downtime_ms: float | None  # None: nothing was written
    partition: int | None  # where it was longest
    is_over: bool  # False: a partition acknowledged nothing until the run ended


@dataclass(frozen=True, slots=True)
class IndicatorsReport:
    runs: list[RunSummary]
    over_time: list[StepFigures] = field(default_factory=list)
    faults: list[FaultFigures] = field(default_factory=list)
    events: int = 0
    torn_lines: int = 0  # left out: their writer was killed
    drawn: frozenset[str] | None = None  # runs with figures over time, and on the page; None: all

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        del found["drawn"]
        return found

    def on_the_page(self) -> "IndicatorsReport":
        """Of many runs, those that are drawn."""
        if self.drawn is None:
            return self
        return replace(
            self,
            runs=[one for one in self.runs if one.run in self.drawn],
            faults=[one for one in self.faults if one.run in self.drawn],
        )


@dataclass(frozen=True, slots=True)
class ModeSummary:
    """One mode over all runs."""

    mode: str
    runs: int
    acknowledged: int
    lost: int
    runs_with_loss: int
    vanished: int
    duplicated: int
    reordered: int
    median_downtime_ms: float | None
    worst_downtime_ms: float | None
    median_p99_ms: float | None
    worst_p99_ms: float | None


def by_mode(runs: Sequence[RunSummary]) -> list[ModeSummary]:
    found = []
    for mode in sorted({one.mode for one in runs}):
        mine = [one for one in runs if one.mode == mode]
        pauses = [one.downtime_ms for one in mine if one.downtime_ms is not None]
        waits = [one.p99_ms for one in mine if one.p99_ms is not None]
        found.append(
            ModeSummary(
                mode,
                len(mine),
                sum(one.acknowledged for one in mine),
                sum(one.lost for one in mine),
                sum(one.lost > 0 for one in mine),
                sum(one.vanished for one in mine),
                sum(one.duplicated for one in mine),
                sum(one.reordered for one in mine),
                median(pauses) if pauses else None,
                max(pauses, default=None),
                median(waits) if waits else None,
                max(waits, default=None),
            )
        )
    return found


def worst_runs(runs: Sequence[RunSummary], count: int) -> frozenset[str]:
    """Those with violations first, then those with the longest downtime."""

    def badness(one: RunSummary) -> tuple[int, int, float]:
        violations = (
            one.lost + one.vanished + one.torn_transactions + one.skipped + one.lost_commits + one.misplaced
        )
        return violations, one.duplicated + one.reordered, one.downtime_ms or 0.0

    names = dict.fromkeys(one.run for one in sorted(runs, key=badness, reverse=True))
    return frozenset([*names][:count])
