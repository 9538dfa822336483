"""The figures of a report as values, before formatting."""

from dataclasses import asdict, dataclass, field
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
