"""Timers, earliest first.

Heartbeats postpone a deadline thousands of times before it expires. So postponing only records the new time,
and an entry that comes up too early is put back into the queue.
"""

import heapq
from collections.abc import Callable

from tidelog.groups.effects import Effects, Now

Due = Callable[[Now], Effects]


class Deadline:
    """A timer that can be postponed or cleared."""

    __slots__ = ("_queue", "_queued_at_ms", "at_ms", "due")

    def __init__(self, queue: "Deadlines", due: Due) -> None:
        self._queue = queue
        self.due = due
        self.at_ms: int | None = None  # None: never
        self._queued_at_ms: int | None = None  # of this deadline's valid entry in the queue

    def set(self, at_ms: int) -> None:
        self.at_ms = at_ms
        if self._queued_at_ms is None or at_ms < self._queued_at_ms:
            self._queued_at_ms = at_ms
            self._queue.push(at_ms, self)

    def clear(self) -> None:
        self.at_ms = None

    def reached(self, entry_ms: int, now_ms: int) -> bool:
        """The queue entry for ``entry_ms`` came up. Returns whether the deadline has expired."""
        if entry_ms != self._queued_at_ms:
            return False  # The deadline was moved to an earlier time, whose entry was already handled.
        self._queued_at_ms = None
        if self.at_ms is None:
            return False
        if self.at_ms > now_ms:
            self.set(self.at_ms)
            return False
        self.at_ms = None
        return True


class Deadlines:
    __slots__ = ("_entries", "_pushed")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Deadline]] = []
        self._pushed = 0  # entries with the same time come up in the order in which they were added

    def new(self, due: Due) -> Deadline:
        return Deadline(self, due)

    def push(self, at_ms: int, deadline: Deadline) -> None:
        self._pushed += 1
        heapq.heappush(self._entries, (at_ms, self._pushed, deadline))

    @property
    def next_ms(self) -> int | None:
        """When to call ``pass_to`` next. Perhaps no deadline has expired by then."""
        return self._entries[0][0] if self._entries else None

    def pass_to(self, now: Now) -> Effects:
        """Run all expired deadlines."""
        effects: Effects = []
        entries = self._entries
        while entries and entries[0][0] <= now.uptime_ms:
            entry_ms, _, deadline = heapq.heappop(entries)
            if deadline.reached(entry_ms, now.uptime_ms):
                effects += deadline.due(now)
        return effects
