"""The result of one simulated run."""

from typing import NamedTuple


class RunResult(NamedTuple):
    mode: str
    seed: int
    digest: str  # of the whole trace: equal digests mean equal runs
    steps: int
    messages: int
    sent: int
    acknowledged: int
    faults: dict[str, int]  # how often each kind occurred
    simulated_ms: float
    trace: tuple[str, ...]  # the end of it
