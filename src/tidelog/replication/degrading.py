"""Whether a leader goes on with fewer copies than its topic asks for, because the topic allows that after a
while. Decides only; who asks says so to the world.
"""

from collections.abc import Iterable, Mapping

from tidelog.replication.progress import Progress


class Degrading:
    __slots__ = ("_short_since_ms", "copies")

    def __init__(self) -> None:
        self.copies: int | None = None  # What is enough for now; None: what the topic asks for.
        self._short_since_ms: int | None = None  # since when backups are missing

    def look(
        self,
        copies: int,
        after_ms: int,
        backups: Iterable[int],
        progress: Mapping[int, Progress],
        end_offset: int,
        now_ms: int,
    ) -> bool:
        """Whether :attr:`copies` has changed. ``backups``: those that serve and had caught up once."""
        there = [progress[backup] for backup in backups]
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
        # Who is there and lags has had its time; for who is missing it runs from now on.
        if keep_up < len(there) or now_ms - self._short_since_ms >= after_ms:
            self.copies = keep_up + 1
        return self.copies != before
