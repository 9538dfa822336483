"""Which transactions of one log are open, and how far ``read_committed`` readers may read.

Owns the first offset of every open transaction, and the transactions whose marker is in the log but perhaps
not committed yet: a marker that can still be truncated must have no effect.

Pure, and free of cost without transactions: the last stable offset is then the high watermark itself.
"""

from collections import deque
from typing import NamedTuple

ENDED_MAX = 1024  # A follower does not serve the last stable offset, so nothing else bounds them.


class EndedTransaction(NamedTuple):
    """Offsets of a transaction whose marker is in the log."""

    first_offset: int
    last_offset: int  # Of the marker.


class OpenTransactions:
    __slots__ = ("_ended", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # Producer id -> first offset, which rises: the first is the oldest.
        self._ended: deque[EndedTransaction] = deque()  # By last offset.

    @property
    def open(self) -> dict[int, int]:
        """Producer id -> first offset, oldest first. Read-only for callers."""
        return self._open

    @property
    def ended(self) -> tuple[EndedTransaction, ...]:
        """Those whose marker may not be committed yet."""
        return tuple(self._ended)

    def restore(self, open_transactions: dict[int, int], ended: list[EndedTransaction]) -> None:
        """Start with the state of a snapshot."""
        self._open = dict(sorted(open_transactions.items(), key=lambda item: item[1]))
        self._ended = deque(ended)

    def clear(self) -> None:
        self._open.clear()
        self._ended.clear()

    def begin(self, producer_id: int, offset: int) -> None:
        """A batch of a transaction is in the log; only its first one counts."""
        if producer_id not in self._open:
            self._open[producer_id] = offset

    def end(self, producer_id: int, last_offset: int) -> EndedTransaction | None:
        """Its marker is in the log; None if no transaction was open."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(first_offset, last_offset)
        self._ended.append(ended)
        if len(self._ended) > ENDED_MAX:
            self._merge_oldest()
        return ended

    def _merge_oldest(self) -> None:
        """Merge half of them into one: the last stable offset then advances later, never too early."""
        oldest = [self._ended.popleft() for _ in range(ENDED_MAX // 2)]
        first_offset = min(ended.first_offset for ended in oldest)
        self._ended.appendleft(EndedTransaction(first_offset, oldest[-1].last_offset))

    def first_open_offset(self, default: int) -> int:
        """Where the oldest open transaction begins."""
        return next(iter(self._open.values()), default)

    def forget_committed(self, high_watermark: int) -> None:
        """Markers below the high watermark are committed."""
        ended = self._ended
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()

    def last_stable_offset(self, high_watermark: int) -> int:
        """Exclusive: below it the outcome of every transaction is known and committed."""
        if not self._open and not self._ended:
            return high_watermark
        self.forget_committed(high_watermark)
        stable = min(high_watermark, self.first_open_offset(high_watermark))
        for ended in self._ended:
            stable = min(stable, ended.first_offset)
        return stable
