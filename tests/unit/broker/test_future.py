"""Values that come later."""

import pytest

from tidelog.broker.future import Future, Gather
from tidelog.errors import InvariantViolation


@pytest.mark.parametrize("early", [True, False])
def test_the_listener_hears_it_whenever_it_comes(early: bool) -> None:
    future: Future[int] = Future()
    heard: list[int] = []
    if early:
        future.then(heard.append)
    before = future.is_complete
    future.complete(5)
    assert (before, future.is_complete) == (False, True)
    if not early:
        future.then(heard.append)
    assert heard == [5]


def test_is_completed_once() -> None:
    future: Future[int] = Future()
    future.complete(1)
    with pytest.raises(InvariantViolation):
        future.complete(2)


def test_has_one_listener() -> None:
    future: Future[None] = Future()
    future.then(lambda _: None)
    with pytest.raises(InvariantViolation):
        future.then(lambda _: None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_gathering(count: int) -> None:
    gather = Gather(count)
    for _ in range(count):
        assert not gather.future.is_complete
        gather.one_done()
    assert gather.future.is_complete


def test_a_value_is_told_when_all_is_gathered() -> None:
    gather = Gather(1)
    later = gather.when_done("rows")
    assert isinstance(later, Future)
    assert not later.is_complete
    gather.one_done()
    heard: list[str] = []
    later.then(heard.append)
    assert heard == ["rows"]


def test_a_value_is_told_at_once_if_all_is_gathered() -> None:
    assert Gather(0).when_done("rows") == "rows"
