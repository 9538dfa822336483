"""How late the event loop is: counted by size, with what of it the loop itself has computed."""

from typing import Any

from tidelog.runtime.lag import BOUNDS_S, Histogram, LagMeter


class Loop:
    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def call_later(self, delay_s: float, callback: Any) -> Any:
        self.waiting.append((delay_s, callback))


def test_values_are_counted_by_the_first_bound_that_holds_them() -> None:
    histogram = Histogram()
    for value in (0.0, 0.002, 0.0021, 0.01, 0.3, 7.0):
        histogram.add(value)
    counts = dict(histogram.cumulative())
    assert counts["0.002"] == 2
    assert counts["0.005"] == 3
    assert counts["0.01"] == 4
    assert counts["0.2"] == 4
    assert counts["0.5"] == 5
    assert counts["+Inf"] == histogram.count == 6
    assert histogram.over(0.01) == 2
    assert histogram.largest_s == 7.0
    assert list(counts)[:-1] == [str(bound) for bound in BOUNDS_S]


def test_a_lag_that_others_caused_is_not_the_loops_own() -> None:
    meter = LagMeter(Loop())  # type: ignore[arg-type]
    meter.measured(0.3, 0.001)  # It did not get the processor.
    meter.measured(0.04, 0.04)
    meter.measured(0.0, 0.5)  # Busy, and yet in time: many short pieces of work.
    assert (meter.late.over(0.02), meter.computing.over(0.02)) == (2, 1)
    assert meter.computing.over(0.05) == 0
    assert meter.take_max_s() == 0.3
    assert meter.take_max_s() == 0.0


def test_it_measures_again_and_again() -> None:
    loop = Loop()
    meter = LagMeter(loop, 0.005)  # type: ignore[arg-type]
    meter.start()
    for _ in range(3):
        delay_s, callback = loop.waiting.pop()
        assert delay_s == 0.005
        callback()
    assert meter.late.count == meter.computing.count == 3
