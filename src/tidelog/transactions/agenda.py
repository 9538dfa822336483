"""The timers of a shard, earliest first."""

import heapq
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class TimerKind(Enum):
    """What happens when a timer fires. Timers are never cancelled, so it is checked whether it is needed."""

    RESUME = "resume"  # Requests that have waited long enough are refused.
    COMPLETION = "completion"  # The end of a transaction is written.
    TIMEOUT = "timeout"  # A transaction that takes too long is aborted.
    EXPIRY = "expiry"  # Unused ids are removed.


class ShardTimer(NamedTuple):
    at_ms: int
    number: int  # Timers with the same time fire in the order in which they were added.
    kind: TimerKind
    transactional_id: str  # Empty: all ids.


class Agenda:
    __slots__ = ("_added", "_timers")

    def __init__(self) -> None:
        self._timers: list[ShardTimer] = []
        self._added = 0

    def add(self, at_ms: int, kind: TimerKind, transactional_id: str = "") -> None:
        self._added += 1
        heapq.heappush(self._timers, ShardTimer(at_ms, self._added, kind, transactional_id))

    @property
    def next_ms(self) -> int | None:
        return self._timers[0].at_ms if self._timers else None

    def due(self, uptime_ms: int) -> Iterator[ShardTimer]:
        """Timers that fire now, with those that are added meanwhile."""
        while self._timers and self._timers[0].at_ms <= uptime_ms:
            yield heapq.heappop(self._timers)
