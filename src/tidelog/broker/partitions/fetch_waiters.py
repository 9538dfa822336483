"""The fetches that wait for the records of one partition: all of them are told of every commit.

Knows who waits, but not when and how a fetch is answered. Clients decide how many wait, and telling 50,000
of them at once would hold the event loop. So many are told in slices. What is committed meanwhile is added up
and told after the last slice, so there is only one list of them at a time, however fast commits come.
"""

from collections.abc import Iterator
from typing import Protocol

from tidelog.broker.slices import in_slices
from tidelog.services import Services

TOLD_AT_ONCE = 500  # about 0.2 ms


class FetchWaiter(Protocol):
    """A fetch that waits for data."""

    def data_arrived(self, size: int) -> None: ...


class FetchWaiters:
    __slots__ = ("_is_telling", "_services", "_untold_bytes", "_waiters")

    def __init__(self, services: Services) -> None:
        self._services = services
        # No list: clients decide how many there are, and in which order they go.
        self._waiters: dict[FetchWaiter, None] = {}
        self._is_telling = False  # in slices, of which some are left
        self._untold_bytes = 0  # committed since the first of these slices

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: FetchWaiter) -> None:
        self._waiters[waiter] = None

    def remove(self, waiter: FetchWaiter) -> None:
        self._waiters.pop(waiter, None)

    def tell(self, size: int) -> None:
        """At most ``size`` bytes can be read now that could not be read before."""
        if self._is_telling:
            self._untold_bytes += size
        elif len(self._waiters) <= TOLD_AT_ONCE:
            for waiter in list(self._waiters):
                waiter.data_arrived(size)
        else:
            self._is_telling = True
            in_slices(self._services, self._tell_each(size), TOLD_AT_ONCE, self._told)

    def _tell_each(self, size: int) -> Iterator[None]:
        for waiter in list(self._waiters):
            if waiter in self._waiters:  # It may have left between two slices.
                waiter.data_arrived(size)
            yield

    def _told(self) -> None:
        self._is_telling = False
        size, self._untold_bytes = self._untold_bytes, 0
        if size:
            self.tell(size)
