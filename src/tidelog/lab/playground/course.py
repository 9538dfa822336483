"""Latencies of one load over time, in slices. Pure: times come in as arguments, the memory is bounded."""

from collections import deque
from typing import NamedTuple

SLICE_S = 0.5
SLICES_MAX = 600
SAMPLES_MAX = 2000  # of a slice; more are counted and not kept


class Slice(NamedTuple):
    end_ms: int  # wall clock
    acknowledged: int
    median_ms: float  # of those that were kept; -1: none
    worst_ms: float  # or how long the writes have waited, if none was acknowledged; -1: nothing waited


class Course:
    def __init__(self) -> None:
        self.slices: deque[Slice] = deque(maxlen=SLICES_MAX)
        self._samples: list[float] = []
        self._count = 0
        self._worst_s = 0.0

    def acknowledged(self, latency_s: float) -> None:
        self._count += 1
        self._worst_s = max(self._worst_s, latency_s)
        if len(self._samples) < SAMPLES_MAX:
            self._samples.append(latency_s)

    def cut(self, end_ms: int, pending_s: float) -> Slice:
        """End the slice. ``pending_s``: since the last acknowledgement, if writes wait; 0: none waits."""
        samples, self._samples = sorted(self._samples), []
        count, self._count = self._count, 0
        worst_s, self._worst_s = self._worst_s, 0.0
        if count:
            found = Slice(end_ms, count, _ms(samples[len(samples) // 2]), _ms(worst_s))
        else:
            found = Slice(end_ms, 0, -1.0, _ms(pending_s) if pending_s > 0 else -1.0)
        self.slices.append(found)
        return found


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
