"""Measures the delay of the event loop, which shows whether a single-threaded broker is overloaded.

A timer that should fire every few milliseconds measures its delay. Work that blocks the loop for longer than
the interval is always detected, and its duration is underestimated by at most the interval. Shorter work is
detected only if it coincides with the timer. On a shared machine, the loop is also late if it does not get
the processor; a second figure excludes that time. A third figure is the part of the delay in which the loop's
thread computed. The rest is waiting for a disk or for a thread that had the interpreter lock.
"""

import asyncio
import logging
import os
import time
from bisect import bisect_left
from collections.abc import Iterator

logger = logging.getLogger(__name__)

INTERVAL_S = 0.02
WARN_FROM_S = 0.5
BOUNDS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Histogram:
    __slots__ = ("_bounds_s", "_counts", "count", "largest_s", "total_s")

    def __init__(self, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self._bounds_s = bounds_s
        # one per bound, for values up to it; the last one for larger values
        self._counts = [0] * (len(bounds_s) + 1)
        self.count = 0
        self.total_s = 0.0
        self.largest_s = 0.0

    def add(self, value_s: float) -> None:
        self._counts[bisect_left(self._bounds_s, value_s)] += 1
        self.count += 1
        self.total_s += value_s
        self.largest_s = max(self.largest_s, value_s)

    def take_largest_s(self) -> float:
        """The largest value since the last call."""
        largest, self.largest_s = self.largest_s, 0.0
        return largest

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(bound, number of values that are not larger), as in Prometheus."""
        sum_so_far = 0
        for bound, count in zip((*map(str, self._bounds_s), "+Inf"), self._counts, strict=True):
            sum_so_far += count
            yield bound, sum_so_far

    def over(self, bound_s: float) -> int:
        """Number of values larger than one of the bounds."""
        return sum(self._counts[self._bounds_s.index(bound_s) + 1 :])


class Turns:
    """How long this thread was ready to run but had no processor. Linux only; 0 elsewhere."""

    def __init__(self, path: str = "/proc/thread-self/schedstat") -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    def waited_s(self) -> float:
        if self._descriptor < 0:
            return 0.0
        return int(os.pread(self._descriptor, 64, 0).split()[1]) / 1e9

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LagMeter:
    def __init__(self, loop: asyncio.AbstractEventLoop, interval_s: float = INTERVAL_S) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._due = 0.0
        self._turns = Turns()
        self._waited_s = self._computed_s = 0.0  # at the last check
        self._timer: asyncio.TimerHandle | None = None
        self.last_s = 0.0
        self.late = Histogram()
        self.held = Histogram()  # without the time in which other programs had the processor
        self.computed = Histogram()  # only the CPU time of the loop's thread

    def start(self) -> None:
        self._waited_s, self._computed_s = self._turns.waited_s(), time.thread_time()
        self._wait()

    def _wait(self) -> None:
        # Not the loop's own clock, which is cached during a callback and has millisecond resolution.
        self._due = time.monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._turns.close()

    def _measure(self) -> None:
        waited_s, computed_s = self._turns.waited_s(), time.thread_time()
        lag_s = max(0.0, time.monotonic() - self._due)
        self.measured(lag_s, waited_s - self._waited_s, computed_s - self._computed_s)
        self._waited_s, self._computed_s = waited_s, computed_s
        self._wait()

    def measured(self, lag_s: float, waited_s: float, computed_s: float) -> None:
        """Since the last measurement, other programs had the processor for ``waited_s``, and the loop's
        thread for ``computed_s``.
        """
        self.last_s = lag_s
        self.late.add(lag_s)
        self.held.add(max(0.0, lag_s - waited_s))
        self.computed.add(min(lag_s, computed_s))
        if lag_s >= WARN_FROM_S:
            logger.warning("the event loop was blocked for %.0f ms", lag_s * 1000)
