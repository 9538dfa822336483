"""Figures of a process."""

from tidelog.page.asking.process import figures


def test_rates_need_two_readings() -> None:
    first, counters = figures({"cpu_seconds": 10.0, "requests": 100, "memory_bytes": 5e7}, None, 1.0)
    assert (first.cpu, first.requests_s, first.memory_bytes) == (-1.0, -1.0, 50_000_000)
    second, _ = figures({"cpu_seconds": 10.5, "requests": 300, "loop_lag_seconds": 0.002}, counters, 2.0)
    assert (second.cpu, second.requests_s, second.loop_lag_ms) == (0.5, 200.0, 2.0)


def test_a_process_that_began_again() -> None:
    _, counters = figures({"cpu_seconds": 10.0, "requests": 100}, None, 1.0)
    again, _ = figures({"cpu_seconds": 1.0, "requests": 2}, counters, 2.0)
    assert (again.cpu, again.requests_s) == (0.0, 0.0)
