"""How many files all logs may keep open: the least recently used one gives way.

Counts everything that holds a file descriptor and can be opened again: the log files and the mapped indexes
of all segments, active or not. An append does not say that it used its file, which would cost more than the
odd reopening: an active segment counts from when it was last opened or read.

What was written and not synced loses nothing when its file closes, and a sync through another descriptor
covers it; the system keeps the news of a failed write for whoever asks next.
"""

from collections import OrderedDict
from typing import Protocol


class Holder(Protocol):
    """Something with an open file that it can open again."""

    def release(self) -> None: ...


class HandleCache:
    __slots__ = ("_held", "limit")

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._held: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, holder: Holder) -> None:
        """``holder`` has just opened its file; somebody else may have to close one."""
        self._held[holder] = None
        while len(self._held) > self.limit:
            victim, _ = self._held.popitem(last=False)
            victim.release()

    def touch(self, holder: Holder) -> None:
        """``holder`` was used: it gives way last."""
        if holder in self._held:
            self._held.move_to_end(holder)

    def discard(self, holder: Holder) -> None:
        """``holder`` has closed its file."""
        self._held.pop(holder, None)
