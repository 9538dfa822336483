"""A future value that needs no event loop. A handler returns one if its response is not available yet."""

from collections.abc import Callable
from typing import Generic, TypeVar

from tidelog.invariant import invariant

T = TypeVar("T")


class Future(Generic[T]):
    """Completed once. A callback that is added afterwards is called immediately."""

    __slots__ = ("_callback", "_is_complete", "_value")

    def __init__(self) -> None:
        self._callback: Callable[[T], None] | None = None
        self._is_complete = False
        self._value: T | None = None

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def complete(self, value: T) -> None:
        invariant(not self._is_complete, "a future is completed once")
        self._is_complete = True
        if self._callback is None:
            self._value = value
        else:
            self._callback(value)

    def then(self, callback: Callable[[T], None]) -> None:
        invariant(self._callback is None, "a future has one listener")
        self._callback = callback
        if self._is_complete:
            callback(self._value)  # type: ignore[arg-type]


class Gather:
    """Completes its future after ``count`` calls of ``one_done``."""

    __slots__ = ("_missing", "future")

    def __init__(self, count: int) -> None:
        self.future: Future[None] = Future()
        self._missing = count
        if count == 0:
            self.future.complete(None)

    def add(self) -> None:
        """One more call is needed. Only before the future is complete."""
        self._missing += 1

    def one_done(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.future.complete(None)

    def when_done(self, value: T) -> T | Future[T]:
        """The value itself if everything is done; otherwise a future of it."""
        if self.future.is_complete:
            return value
        later: Future[T] = Future()
        self.future.then(lambda _: later.complete(value))
        return later
