"""A future value that needs no event loop. A handler returns one if its response is not available yet."""

from collections.abc import Callable
from typing import Generic, TypeVar

from tidelog.invariant import invariant

T = TypeVar("T")


class Promise(Generic[T]):
    """Kept once. A callback that is added afterwards is called immediately."""

    __slots__ = ("_callback", "_kept", "_value")

    def __init__(self) -> None:
        self._callback: Callable[[T], None] | None = None
        self._kept = False
        self._value: T | None = None

    @property
    def kept(self) -> bool:
        return self._kept

    def keep(self, value: T) -> None:
        invariant(not self._kept, "a promise is kept once")
        self._kept = True
        if self._callback is None:
            self._value = value
        else:
            self._callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        invariant(self._callback is None, "a promise has one listener")
        self._callback = callback
        if self._kept:
            callback(self._value)  # type: ignore[arg-type]


class Gather:
    """Keeps its promise after ``count`` calls of ``one_done``."""

    __slots__ = ("_missing", "promise")

    def __init__(self, count: int) -> None:
        self.promise: Promise[None] = Promise()
        self._missing = count
        if count == 0:
            self.promise.keep(None)

    def one_done(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.promise.keep(None)
