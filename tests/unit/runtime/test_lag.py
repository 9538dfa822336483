"""How late the event loop is: counted by size, and apart from the time in which others had the processor."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tidelog.runtime.lag import BOUNDS_S, Histogram, LagMeter, Turns


class Loop:
    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def call_later(self, delay_s: float, callback: Any) -> Any:
        self.waiting.append((delay_s, callback))
        return SimpleNamespace(cancel=lambda: None)


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


def test_a_lag_that_others_caused_is_not_held_against_the_loop() -> None:
    meter = LagMeter(Loop())  # type: ignore[arg-type]
    meter.measured(0.3, 0.299, 0.001)  # It did not get the processor.
    meter.measured(0.04, 0.0, 0.06)
    meter.measured(0.0, 0.5, 0.02)  # It had to wait for its turn, and yet was in time.
    assert (meter.late.over(0.02), meter.held.over(0.02)) == (2, 1)
    assert meter.held.over(0.05) == 0
    assert (meter.computed.over(0.02), meter.computed.over(0.05)) == (1, 0)
    assert meter.late.take_largest_s() == 0.3
    assert meter.late.take_largest_s() == 0.0


def test_it_measures_again_and_again() -> None:
    loop = Loop()
    meter = LagMeter(loop, 0.005)  # type: ignore[arg-type]
    meter.start()
    for _ in range(3):
        delay_s, callback = loop.waiting.pop()
        assert delay_s == 0.005
        callback()
    assert meter.late.count == meter.held.count == 3
    meter.stop()


def test_turns_are_told_where_the_system_does(tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_text("100 2500000000 7\n")
    turns = Turns(str(tmp_path / "schedstat"))
    assert turns.waited_s() == 2.5
    turns.close()
    assert Turns(str(tmp_path / "missing")).waited_s() == 0.0
