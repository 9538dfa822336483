"""Produce and Fetch of many connections share the turns of the event loop.

One read of a connection may bring 700 pipelined fetches, which take 20 ms, and one turn of the loop reads all
connections that are ready: a hundred of them held it for two seconds. So after some milliseconds of one turn
the others wait for the next one, in the order in which they came, and each gets a short slice. Five requests
in flight, as usual clients have, fit into a slice. Requests of other nodes do not wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

FREE_S = 0.001  # nothing is asked: a callback for the end of each turn would cost as much as a small request
TURN_S = 0.003  # after that, for such requests of all connections
SLICE_S = 0.00025  # for those of one connection while others wait


class HotTurns:
    __slots__ = ("_free_until_s", "_is_counted", "_loop", "_pending", "_until_s")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: deque[Callable[[], None]] = deque()
        self._free_until_s = 0.0
        self._is_counted = False  # The present turn has an end, of which a callback tells.
        self._until_s = 0.0

    def must_wait(self, now_s: float) -> bool:
        """Whether a connection without a slice has to wait for one."""
        if self._pending:
            return True
        if self._is_counted:
            return now_s >= self._until_s
        if now_s >= self._free_until_s:
            self._is_counted = True
            self._until_s = now_s + TURN_S
            self._loop.call_soon(self._next_turn)
        return False

    def wait(self, take: Callable[[], None]) -> None:
        """``take`` is called when it is this connection's turn. Only after it was told to wait."""
        self._pending.append(take)

    def _next_turn(self) -> None:
        """Those that have waited longest are first, and none that comes meanwhile."""
        now_s = monotonic()
        if not self._pending:
            self._is_counted = False
            self._free_until_s = now_s + FREE_S
            return
        self._until_s = until_s = now_s + TURN_S
        self._loop.call_soon(self._next_turn)
        for _ in range(len(self._pending)):
            self._pending.popleft()()
            if monotonic() >= until_s:
                break
