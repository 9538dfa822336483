"""How much of one turn of the event loop goes to clients' requests other than Produce and Fetch.

When many connections become ready at once, such as those of the 50 members of a group, one turn reads all of
them. Their requests together would hold the loop, although each takes less than a millisecond. So when the
budget of a turn is spent, further requests take turns with slices of long work. Produce, Fetch and requests
of other nodes have no budget.
"""

import asyncio

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
