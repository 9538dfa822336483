"""Which leader epoch began at which offset: the history by which two replicas find their divergence.

Owns the entries of one log and the text of ``leader-epoch-checkpoint``. Does no input or output itself: the
log writes :meth:`encode` to disk when it syncs. An entry lost in a crash is recovered from the batch headers.
One without batches is not: the records before it may have been committed in that epoch, so nothing may follow
from its absence (:mod:`tidelog.replication.attachments.restorer`).

The history decides which of two logs is newer, so a wrong bit in the file must not count. Kafka reads the
same file and knows no checksum. So the checksum is the gap between the two numbers of the first row: a tab
for each 1 bit and a space for each 0 bit.

Invariant: epochs rise strictly, start offsets rise strictly.
"""

import re
from bisect import bisect_right
from typing import NamedTuple

from crc32c import crc32c

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.invariant import invariant
from tidelog.types import NO_EPOCH, NO_OFFSET

_VERSION = 0
_ROW = re.compile(r"([0-9]+)([ \t]+)([0-9]+)")
_UNCHECKED = " "  # the gap in a file of an earlier version, or of Kafka
_BITS = str.maketrans("01", " \t")


class History(NamedTuple):
    """What a checked history says, as it was at one moment: batches are held against it, in any thread."""

    epochs: tuple[int, ...]
    starts: tuple[int, ...]
    end_offset: int  # Exclusive: nothing is known of what lies behind.

    def contradicts(self, base_offset: int, epoch: int) -> bool:
        """Whether no batch of ``epoch`` can begin at ``base_offset``. Batches without an epoch can."""
        at = bisect_right(self.starts, base_offset)
        return at > 0 and 0 <= epoch != self.epochs[at - 1] and base_offset < self.end_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at ``offset``; -1 if unknown."""
        at = bisect_right(self.starts, offset)
        return self.epochs[at - 1] if at else NO_EPOCH

    def is_older_than(self, epoch: int) -> bool:
        """Whether it may have been written before a truncation that a leader of ``epoch`` has asked for."""
        return not self.epochs or epoch > self.epochs[-1]


NO_HISTORY = History((), (), 0)


class EpochCache:
    __slots__ = ("_epochs", "_starts", "is_checked", "latest", "version")

    def __init__(self) -> None:
        # Whether it comes from the batches or from a file with a checksum. Any other file is believed where
        # nothing speaks against it, but no batch is blamed for being of another epoch.
        self.is_checked = True
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest: int = NO_EPOCH
        self.version = 0  # Counts changes: the log compares it with the file's version.

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def history(self, end_offset: int = LONG_MAX) -> History:
        """What batches before ``end_offset`` must agree with."""
        return self.history_unchecked(end_offset) if self.is_checked else NO_HISTORY

    def history_unchecked(self, end_offset: int = LONG_MAX) -> History:
        return History(tuple(self._epochs), tuple(self._starts), end_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` begins at ``start_offset``: at its first batch, or already when its leader takes over.

        Does nothing if the epoch has begun before. An epoch that began at the same offset and left no batch
        is removed.
        """
        if epoch == self.latest or epoch < 0:
            return
        while self._starts and self._starts[-1] >= start_offset:
            self._pop()
        if epoch == self.latest:
            return
        invariant(epoch > self.latest, "leader epochs only rise", epoch, self.latest, start_offset)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self.version += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch that is not above ``epoch``, its exclusive end offset); (-1, -1) if unknown.

        Below all known epochs the requested one itself is returned, with the offset where history begins.
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        floor = self._epochs[above - 1] if above else epoch
        return floor, self._starts[above]

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at ``offset``; -1 if unknown."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from(self, end_offset: int) -> None:
        """Remove the epochs that began at or after ``end_offset``."""
        while self._starts and self._starts[-1] >= end_offset:
            self._pop()

    def truncate_before(self, start_offset: int) -> None:
        """Remove everything before ``start_offset``; the epoch in force there now begins there."""
        at = bisect_right(self._starts, start_offset) - 1
        if at < 0 or (at == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:at], self._starts[:at]
        self._starts[0] = start_offset
        self.version += 1

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.latest = NO_EPOCH
            self.version += 1

    def _pop(self) -> None:
        self._epochs.pop()
        self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version += 1

    def encode(self) -> bytes:
        rows = list(zip(self._epochs, self._starts, strict=True))
        gap = _checksum(rows)
        lines = [str(_VERSION), str(len(rows))]
        for epoch, start in rows:
            lines.append(f"{epoch}{gap}{start}")
            gap = _UNCHECKED
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, text: bytes) -> "EpochCache":
        """Raises :class:`CorruptBatch` if the text is not a complete checkpoint."""
        cache = cls()
        gaps: list[str] = []
        try:
            version, count, *rows = text.decode().splitlines()
            if int(version) != _VERSION or int(count) != len(rows):
                raise ValueError
            for row in rows:
                epoch, gap, start = _parsed(row)
                if epoch <= cache.latest or (cache._starts and start <= cache._starts[-1]):
                    raise ValueError
                cache.assign(epoch, start)
                gaps.append(gap)
            if gaps and gaps[0] not in (_UNCHECKED, _checksum(cache.entries)):
                raise ValueError
            cache.is_checked = not gaps or gaps[0] != _UNCHECKED
        except ValueError:
            raise CorruptBatch("the leader epoch checkpoint is damaged") from None
        cache.version = 0
        return cache


def _parsed(row: str) -> tuple[int, str, int]:
    found = _ROW.fullmatch(row)
    if found is None:
        raise ValueError
    return int(found[1]), found[2], int(found[3])


def _checksum(rows: list[tuple[int, int]]) -> str:
    """As a gap between two numbers."""
    return f"{crc32c(repr(rows).encode()):032b}".translate(_BITS)
