"""How often the page asks."""

import pytest

from tidelog.page.pace import RESPONSES, SHARE, Pace

LEAST_S = 0.5


def test_a_quick_answer_is_asked_for_again_soon() -> None:
    pace = Pace()
    assert [pace.pause_s(LEAST_S, 0.01) for _ in range(3)] == [LEAST_S] * 3


def test_an_answer_that_always_takes_long_is_asked_for_rarely() -> None:
    pace = Pace()
    pause_s = [pace.pause_s(LEAST_S, 1.0) for _ in range(RESPONSES)][-1]
    assert 1.0 / (1.0 + pause_s) == pytest.approx(SHARE)


def test_answers_that_waited_for_a_frozen_broker_are_no_cost() -> None:
    pace = Pace()
    for _ in range(2):
        assert [pace.pause_s(LEAST_S, took_s) for took_s in (0.01, 1.6, 0.7, 0.01)] == [LEAST_S] * 4
