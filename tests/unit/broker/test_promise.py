"""Values that come later."""

import pytest

from tidelog.broker.promise import Gather, Promise
from tidelog.errors import InvariantViolation


@pytest.mark.parametrize("early", [True, False])
def test_the_listener_hears_it_whenever_it_comes(early: bool) -> None:
    promise: Promise[int] = Promise()
    heard: list[int] = []
    if early:
        promise.then(heard.append)
    before = promise.kept
    promise.keep(5)
    assert (before, promise.kept) == (False, True)
    if not early:
        promise.then(heard.append)
    assert heard == [5]


def test_is_kept_once() -> None:
    promise: Promise[int] = Promise()
    promise.keep(1)
    with pytest.raises(InvariantViolation):
        promise.keep(2)


def test_has_one_listener() -> None:
    promise: Promise[None] = Promise()
    promise.then(lambda _: None)
    with pytest.raises(InvariantViolation):
        promise.then(lambda _: None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_gathering(count: int) -> None:
    gather = Gather(count)
    for _ in range(count):
        assert not gather.promise.kept
        gather.one_done()
    assert gather.promise.kept
