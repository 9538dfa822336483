"""Which leader epoch began at which offset: the history by which two replicas find where they differ.

Owns the entries of one log and the text of ``leader-epoch-checkpoint``. Does no input or output itself: the
log writes :meth:`encode` to disk when it syncs. An entry that a crash loses is found again in the batches'
headers; one without batches promised nothing.

Kafka's file has no checksum, and with one wrong digit replicas would cut their logs at the wrong place. So
the last line ends with a CRC of all before it, as 32 blanks: a space for each 0, a tab for each 1. Kafka, and
earlier versions of Tidelog, skip blanks at the end of a line. A file without them is believed.

Invariant: epochs rise strictly, start offsets rise strictly.
"""

from bisect import bisect_right

from crc32c import crc32c

from tidelog.errors import CorruptBatch
from tidelog.invariant import invariant
from tidelog.types import NO_EPOCH, NO_OFFSET

_VERSION = 0
_CRC_BITS = 32
_TO_BLANKS = str.maketrans("01", " \t")


class EpochCache:
    __slots__ = ("_epochs", "_starts", "latest", "version")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest: int = NO_EPOCH
        self.version = 0  # Counts changes, so that the log knows whether the file is behind.

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` begins at ``start_offset``: at its first batch, or already when its leader takes over.

        Does nothing when the epoch has begun before. An epoch that began at the same offset and left no batch
        is forgotten: nothing of it exists.
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
        """(largest known epoch that is not above ``epoch``, its exclusive end offset); (-1, -1) when unknown.

        Below all known epochs the asked one itself is returned, with the offset where history begins.
        """
        if epoch < 0 or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        floor = self._epochs[above - 1] if above else epoch
        return floor, self._starts[above]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote the record at ``offset``; -1 when unknown."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from(self, end_offset: int) -> None:
        """Forget the epochs that began at or behind ``end_offset``."""
        while self._starts and self._starts[-1] >= end_offset:
            self._pop()

    def truncate_before(self, start_offset: int) -> None:
        """Forget what lies before ``start_offset``; the epoch in force there now begins there."""
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
        lines = [str(_VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        text = "\n".join(lines)
        return f"{text}{_blanks_of(text) if self._epochs else ''}\n".encode()

    @classmethod
    def decode(cls, text: bytes) -> "EpochCache":
        """Raises :class:`CorruptBatch` when the text is not a whole checkpoint."""
        cache = cls()
        try:
            version, count, *rows = _checked(text.decode()).splitlines()
            if int(version) != _VERSION or int(count) != len(rows):
                raise ValueError
            for row in rows:
                epoch, start = map(int, row.split())
                if epoch <= cache.latest or (cache._starts and start <= cache._starts[-1]):
                    raise ValueError
                cache.assign(epoch, start)
        except ValueError:
            raise CorruptBatch("the leader epoch checkpoint is damaged") from None
        cache.version = 0
        return cache


def _blanks_of(text: str) -> str:
    return f"{crc32c(text.encode()):0{_CRC_BITS}b}".translate(_TO_BLANKS)


def _checked(text: str) -> str:
    """Without the checksum. Raises ``ValueError`` when the text is not as it was written."""
    lines = text.removesuffix("\n")
    bare = lines.rstrip(" \t")
    blanks = lines[len(bare) :]
    if blanks and blanks != _blanks_of(bare):
        raise ValueError
    return bare
