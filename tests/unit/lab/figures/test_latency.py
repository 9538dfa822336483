"""Percentiles, and to which part of a round a write belongs."""

import pytest

from tidelog.lab.figures.latency import latency, percentile, records_per_s
from tidelog.lab.results import Latency

from .made_up import START, WINDOWS, write


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.999, 100), (0.001, 1)])
def test_percentiles_are_values_that_occurred(share: float, value: float) -> None:
    assert percentile(list(range(1, 101)), share) == value


def test_a_write_belongs_to_when_it_was_sent() -> None:
    writes = [write("acknowledged", 0, 2500, sent=1500), write("acknowledged", 1, 2510, sent=2500)]
    assert latency(writes, WINDOWS.fault_start_us, WINDOWS.fault_end_us).p50 == 1000
    assert latency(writes, WINDOWS.fault_end_us, WINDOWS.end_us).p50 == 10
    assert latency(writes, START, WINDOWS.fault_start_us) == Latency()


def test_rate() -> None:
    assert records_per_s([write("acknowledged", n, 10 * n) for n in range(300)], WINDOWS) == 100
