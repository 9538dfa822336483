"""How much of one turn of the event loop goes to clients' requests other than Produce and Fetch.

When many connections become ready at once, such as those of the 50 members of a group, one turn reads all of
them. Their requests together would hold the loop, although each takes less than a millisecond. So when the
budget of a turn is spent, further requests take turns with slices of long work. Produce and Fetch have
turns of their own (:mod:`~tidelog.runtime.hot_turns`). Requests of other nodes do not wait.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from tidelog.runtime.hot_turns import SLICE_S, HotTurns
from tidelog.runtime.large_requests import LARGE_BYTES

# How long one connection's requests, without Produce and Fetch, are started one after another.
PLAIN_S = 0.001
TURN_S = 0.003  # from the first such request on; slices of long work have had their own time before


class TurnBudget:
    __slots__ = ("_loop", "_until_s")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until_s = 0.0  # 0: There was no such request in this turn.

    def is_spent(self, now_s: float) -> bool:
        """Whether a request that is to begin now has to wait for its turn."""
        if not self._until_s:
            self._until_s = now_s + TURN_S
            self._loop.call_soon(self._turn_is_over)
        return now_s >= self._until_s

    def _turn_is_over(self) -> None:
        """The next turn has begun, and nothing was read in it yet."""
        self._until_s = 0.0


class ConnectionTurn:
    """When the requests of one connection have to wait for their turn."""

    __slots__ = ("_budget", "_has_come", "_hot_turns", "hot_until_s", "plain_until_s")

    def __init__(self, budget: TurnBudget, hot_turns: HotTurns) -> None:
        self._budget = budget
        self._hot_turns = hot_turns
        self._has_come = False  # for the request that is handled next
        # When the next request has to wait; 0: none was started since the last read. The time of Produce and
        # Fetch counts only if others wait.
        self.plain_until_s = 0.0
        self.hot_until_s = 0.0

    def has_come(self) -> None:
        """For the request that has waited."""
        self._has_come = True

    def must_be_awaited(self, size: int) -> bool:
        """Whether this request, which is no Produce or Fetch, waits until other connections have had their
        turn: if it is large, or if the ones before it have taken some time, of this connection or of all. A
        buffer may have thousands of small ones, and many connections may be ready at once.
        """
        came, self._has_come = self._has_come, False
        if came:
            return False
        now = monotonic()
        if not self.plain_until_s:
            self.plain_until_s = now + PLAIN_S
        return size >= LARGE_BYTES or now >= self.plain_until_s or self._budget.is_spent(now)

    def must_await_slice(self, now_s: float) -> bool:
        """Whether this Produce or Fetch waits because those of other connections do, or have taken long. If
        not, those that follow at once need not ask: until ``hot_until_s``.
        """
        came, self._has_come = self._has_come, False
        if not came and self._hot_turns.must_wait(now_s):
            return True
        self.hot_until_s = now_s + SLICE_S
        return False

    def wait_for_slice(self, take: Callable[[], None]) -> None:
        """``take`` is called when it is the turn of this connection's Produce and Fetch."""
        self._hot_turns.wait(take)
