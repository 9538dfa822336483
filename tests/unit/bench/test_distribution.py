"""How the benches tell a distribution."""

from bench.distribution import histogram, percentile, spread


def test_percentiles_fall_between_neighbours() -> None:
    assert percentile([30, 10, 20], 50) == 20
    assert percentile([10, 20], 50) == 15
    assert percentile([7], 99) == 7


def test_slow_runs_are_counted_and_every_run_is_kept() -> None:
    figures = spread([100.4, 1_000, 300])
    assert (figures["p50_ms"], figures["worst_ms"], figures["slow"]) == (300, 1_000, 1)
    assert figures["gaps_ms"] == [100, 1_000, 300]
    assert spread([]) == {}


def test_a_histogram_is_one_line() -> None:
    assert histogram([20, 120, 50, 140, 9_000]) == "≤50: 2, ≤150: 2, >5,000: 1"
