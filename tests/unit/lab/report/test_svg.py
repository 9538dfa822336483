"""Scales, ticks and shapes."""

import pytest

from tidelog.lab.report import svg


@pytest.mark.parametrize(
    ("low", "high", "steps", "expected"),
    [(0, 10, 5, [0, 2, 4, 6, 8, 10]), (0, 430, 4, [0, 200, 400]), (0.3, 1.1, 4, [0.4, 0.6, 0.8, 1.0])],
)
def test_ticks_are_round_numbers(low: float, high: float, steps: int, expected: list[float]) -> None:
    assert svg.ticks(low, high, steps) == pytest.approx(expected)


def test_powers_of_ten() -> None:
    assert svg.log_ticks(1, 5000) == [1, 10, 100, 1000]


def test_values_are_placed_and_kept_inside() -> None:
    scale = svg.Scale(0, 10, 100, 0)
    assert (scale(0), scale(5), scale(10), scale(99)) == (100, 50, 0, 0)
    log = svg.Scale(1, 100, 0, 10, is_log=True)
    assert (log(1), log(10), log(0)) == (0, 5, 0)


def test_a_gap_breaks_the_line() -> None:
    assert svg.path([(0, 1), (1, 2), None, (3, 4)], "x") == '<path d="M0 1L1 2M3 4" class="x"/>'


def test_words_are_escaped() -> None:
    assert "&lt;b&gt;" in svg.text(0, 0, "<b>", "name")
