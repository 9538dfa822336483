"""The timers of a shard, earliest first."""

import heapq
from collections.abc import Callable

from tidelog.transactions.effects import Effects, Now

Due = Callable[[Now], Effects]
"""Called when the timer fires. It must check whether it is still needed: timers are never cancelled."""


class Agenda:
    __slots__ = ("_added", "_entries")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Due]] = []
        self._added = 0  # Timers with the same time fire in the order in which they were added.

    def add(self, at_ms: int, due: Due) -> None:
        self._added += 1
        heapq.heappush(self._entries, (at_ms, self._added, due))

    @property
    def next_ms(self) -> int | None:
        return self._entries[0][0] if self._entries else None

    def pass_to(self, now: Now) -> Effects:
        effects: Effects = []
        while self._entries and self._entries[0][0] <= now.uptime_ms:
            effects += heapq.heappop(self._entries)[2](now)
        return effects
