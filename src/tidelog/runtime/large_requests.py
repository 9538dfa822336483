"""Large requests of clients, except Produce and Fetch: decoded one after another.

Decoding cannot be divided, and a decoded request needs many times the memory of its bytes. Many of them at
once would hold the event loop and use all memory. So each waits for its turn, and of very large ones only a
few are handled at a time; the others wait as bytes, which are limited by ``queued.max.request.bytes``.
"""

from collections import deque
from collections.abc import Callable

from tidelog.services import Services

LARGE_BYTES = 16 * 1024  # about 1,000 elements
HUGE_BYTES = 256 * 1024
HUGE_AT_ONCE = 4


class LargeRequests:
    __slots__ = ("_pending", "_services", "_taken")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._pending: deque[Callable[[], None]] = deque()  # for others to be done
        self._taken = 0  # huge requests that are not done

    def wait(self, size: int, take: Callable[[], None]) -> None:
        """``take`` is called when it is this request's turn. A huge one calls :meth:`done` afterwards."""
        if size < HUGE_BYTES:
            self._services.in_turn(take)
            return
        self._pending.append(take)
        self._take_some()

    def done(self) -> None:
        self._taken -= 1
        self._take_some()

    def _take_some(self) -> None:
        while self._pending and self._taken < HUGE_AT_ONCE:
            self._taken += 1
            self._services.in_turn(self._pending.popleft())
