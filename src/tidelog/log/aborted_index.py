"""The aborted transactions of one segment: ``.txnindex``, in Kafka's format.

Readers of committed records are told which transactions were aborted, so that they pass over their records. A
transaction stands in the segment that holds its marker, in the order of the markers:

=================== ====== ==========================================================================
version             int16  0
producer id         int64
first offset        int64  of the transaction's first batch
last offset         int64  of its marker
last stable offset  int64  when the marker was written: what begins behind it has a later entry
=================== ====== ==========================================================================

There is no file until a transaction is aborted. Nothing here has to survive a crash: recovery builds the file
again from the batches.
"""

from struct import Struct
from typing import NamedTuple

from tidelog.log.handles import HandleCache
from tidelog.log.storage import File, Storage

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0
_READ_ENTRIES = 256


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedIndex:
    __slots__ = ("_file", "_handles", "_storage", "exists", "path", "size")

    def __init__(self, storage: Storage, handles: HandleCache, path: str, size: int | None) -> None:
        """``size`` is the file's; None where there is none."""
        self._storage = storage
        self._handles = handles
        self._file: File | None = None
        self.path = path
        self.exists = size is not None
        self.size = size or 0  # Bytes of whole entries, unless a crash tore the file.

    def __len__(self) -> int:
        return self.size // ENTRY_SIZE

    @property
    def is_torn(self) -> bool:
        """Whether the file ends inside an entry: then it must be built anew."""
        return self.size % ENTRY_SIZE != 0

    def adopt(self, handles: HandleCache) -> None:
        self.release()
        self._handles = handles

    def create(self) -> None:
        """An empty file, where there must be one."""
        self._open()

    def _open(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._storage.open(self.path, create=not self.exists)
            self.exists = True
            self._handles.add(self)
        return file

    def release(self) -> None:
        """Let go of the file."""
        self._file = None
        self._handles.discard(self)

    # -- writing -----------------------------------------------------------------------

    def append(self, aborted: AbortedTransaction) -> None:
        self._open().write_at(self.size, _ENTRY.pack(_VERSION, *aborted))
        self.size += ENTRY_SIZE

    def reset(self) -> None:
        """Forget all entries."""
        self._cut(0)

    def truncate(self, end_offset: int) -> None:
        """Forget the transactions whose marker lies at or behind ``end_offset``."""
        self._cut(self._first_ending_at(end_offset))

    def _cut(self, count: int) -> None:
        if self.size > count * ENTRY_SIZE:
            self._open().truncate(count * ENTRY_SIZE)
            self.size = count * ENTRY_SIZE

    # -- reading -----------------------------------------------------------------------

    def find(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with records in ``[start_offset, end_offset)``, and whether no later segment has any more."""
        found: list[AbortedTransaction] = []
        number = self._first_ending_at(start_offset)
        while number < len(self):
            for aborted in self._read(number, _READ_ENTRIES):
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found, True
            number += _READ_ENTRIES
        return found, False

    def _first_ending_at(self, offset: int) -> int:
        """Number of the first entry whose marker lies at or behind ``offset``."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._read(middle, 1)[0].last_offset >= offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _read(self, number: int, count: int) -> list[AbortedTransaction]:
        count = min(count, len(self) - number)
        data = self._open().read_at(number * ENTRY_SIZE, count * ENTRY_SIZE)
        return [AbortedTransaction._make(fields[1:]) for fields in _ENTRY.iter_unpack(data)]
