"""When the requests of a connection wait for their turn."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.runtime import turn_budget
from tidelog.runtime.hot_turns import SLICE_S
from tidelog.runtime.large_requests import LARGE_BYTES
from tidelog.runtime.turn_budget import PLAIN_S, TURN_S, ConnectionTurn, TurnBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found = [100.0]
    monkeypatch.setattr(turn_budget, "monotonic", lambda: found[0])
    return found


def test_the_budget_of_a_turn_ends_with_it() -> None:
    soon: list[Callable[[], None]] = []
    budget = TurnBudget(cast(Any, SimpleNamespace(call_soon=soon.append)))
    assert not budget.is_spent(1.0)
    assert not budget.is_spent(1.0 + TURN_S / 2)
    assert budget.is_spent(1.0 + TURN_S)
    assert len(soon) == 1
    soon[0]()
    assert not budget.is_spent(1.0 + TURN_S)


def turn(spent: bool = False, others_wait: bool = False) -> ConnectionTurn:
    hot_turns = SimpleNamespace(must_wait=lambda now_s: others_wait)
    return ConnectionTurn(cast(Any, SimpleNamespace(is_spent=lambda now_s: spent)), cast(Any, hot_turns))


def test_small_requests_wait_after_a_while(clock: list[float]) -> None:
    one = turn()
    assert not one.must_be_awaited(10)
    clock[0] += PLAIN_S / 2
    assert not one.must_be_awaited(10)
    clock[0] += PLAIN_S
    assert one.must_be_awaited(10)
    one.has_come()
    assert not one.must_be_awaited(10)
    assert one.must_be_awaited(10)
    one.plain_until_s = 0.0  # The next read.
    assert not one.must_be_awaited(10)


@pytest.mark.usefixtures("clock")
def test_a_large_request_waits_and_so_does_any_when_others_have_used_the_turn() -> None:
    assert turn().must_be_awaited(LARGE_BYTES)
    assert not turn().must_be_awaited(LARGE_BYTES - 1)
    assert turn(spent=True).must_be_awaited(10)


def test_produce_and_fetch_have_a_slice_if_no_other_waits() -> None:
    one = turn()
    assert not one.must_await_slice(1.0)
    assert one.hot_until_s == 1.0 + SLICE_S


def test_produce_and_fetch_wait_for_a_slice_if_others_do() -> None:
    one = turn(others_wait=True)
    assert one.must_await_slice(1.0)
    assert one.hot_until_s == 0.0, "it asks again"
    one.has_come()
    assert not one.must_await_slice(1.0)
    assert one.hot_until_s == 1.0 + SLICE_S
    assert one.must_await_slice(2.0), "once"
