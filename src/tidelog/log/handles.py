"""The limit of open files of all logs: the least recently used one is closed.

Counts everything that holds a file descriptor and can be reopened: the log files and the mapped indexes of
all segments, active or not. An append does not report that it used its file, which would cost more than an
occasional reopening: an active segment counts from when it was last opened or read.

Unsynced writes are not lost when a file is closed, and a sync through another descriptor covers them; the
system keeps a write error for the next caller that asks.
"""

from collections import OrderedDict
from typing import Protocol


class Holder(Protocol):
    """Something with an open file that it can reopen."""

    def release(self) -> None: ...


class HandleCache:
    __slots__ = ("_held", "limit")

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._held: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, holder: Holder) -> None:
        """``holder`` has just opened its file; another holder may have to close one."""
        self._held[holder] = None
        while len(self._held) > self.limit:
            victim, _ = self._held.popitem(last=False)
            victim.release()

    def touch(self, holder: Holder) -> None:
        """``holder`` was used: it is closed last."""
        if holder in self._held:
            self._held.move_to_end(holder)

    def discard(self, holder: Holder) -> None:
        """``holder`` has closed its file."""
        self._held.pop(holder, None)
