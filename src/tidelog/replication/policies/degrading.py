"""Decides whether a leader may acknowledge with fewer copies than the topic requires, because the topic
allows that after some time without enough backups. Only decides: the caller reports it.
"""

from tidelog.replication.view import View


class Degrading:
    __slots__ = ("_short_since_ms", "copies")

    def __init__(self) -> None:
        self.copies: int | None = None  # number of copies required now; None: as many as the topic requires
        self._short_since_ms: int | None = None  # since when there are too few backups

    def look(self, view: View, copies: int, after_ms: int, end_offset: int, now_ms: int) -> bool:
        """Update :attr:`copies`; returns whether it has changed. ``copies``: how many the topic requires."""
        # Backups that serve and have caught up once.
        there = [
            view.progress[member]
            for member in view.in_sync
            if member != view.me and member not in view.uncounted
        ]
        keep_up = sum(
            each.seen and (each.end_offset >= end_offset or now_ms - each.caught_up_ms <= after_ms)
            for each in there
        )
        before = self.copies
        if keep_up + 1 >= copies:
            self.copies = self._short_since_ms = None
            return before is not None
        if self._short_since_ms is None:
            self._short_since_ms = now_ms
        # A backup that is available and lags has already exceeded the allowed time. For a missing one it
        # starts now.
        if keep_up < len(there) or now_ms - self._short_since_ms >= after_ms:
            self.copies = keep_up + 1
        return self.copies != before
