"""The aborted transactions of one segment: ``.txnindex``, in Kafka's format.

``read_committed`` readers get the list of aborted transactions, so that they skip their records. A
transaction is listed in the segment that holds its marker, in the order of the markers:

=================== ====== ==========================================================================
version             int16  0, or a check of the rest with the sign bit set: Kafka's readers accept any
                           version up to 0
producer id         int64
first offset        int64  of the transaction's first batch
last offset         int64  of its marker
last stable offset  int64  when the marker was written: later transactions have a later entry
=================== ====== ==========================================================================

There is no file until a transaction is aborted. The file need not survive a crash: recovery rebuilds it
from the batches. So does any reader that finds a damaged entry: one whose check is wrong, or whose marker is
not in this segment, as in a page of zeros or in the file of another segment. An entry that cannot be written
stays in memory: its marker is in the log, and readers that do not skip the transaction would get its records.
"""

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.config.kinds import LONG_MAX
from tidelog.log.files import replace_whole
from tidelog.log.handles import HandleCache
from tidelog.log.index import DamagedIndex
from tidelog.log.storage import File, Storage

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_FIELDS = Struct(">qqqq")
_UNCHECKED = 0  # As Kafka and earlier versions of Tidelog write it.
_CHECK_BITS = 0x7FFF
_READ_ENTRIES = 256


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _check_of(fields: bytes | memoryview) -> int:
    """Negative, in 16 bits."""
    return (crc32c(fields) & _CHECK_BITS) - _CHECK_BITS - 1


def encode(transactions: Sequence[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_check_of(_FIELDS.pack(*each)), *each) for each in transactions)


def decode(data: bytes, base_offset: int = 0, end_offset: int = LONG_MAX) -> list[AbortedTransaction]:
    """Raises :class:`DamagedIndex` if an entry is damaged, or is none of a segment with these offsets."""
    found = []
    view = memoryview(data)
    at = 0
    offset_min = base_offset
    for version, *fields in _ENTRY.iter_unpack(data):
        aborted = AbortedTransaction._make(fields)
        at += ENTRY_SIZE
        if version != _UNCHECKED and version != _check_of(view[at - _FIELDS.size : at]):
            raise DamagedIndex(f"the entry of producer {aborted.producer_id} does not match its check")
        if not 0 <= aborted.first_offset < aborted.last_offset:
            raise DamagedIndex(f"a transaction from {aborted.first_offset} to {aborted.last_offset}")
        if not offset_min <= aborted.last_offset < end_offset:
            raise DamagedIndex(f"offset {aborted.last_offset} is not from {offset_min} to {end_offset - 1}")
        offset_min = aborted.last_offset + 1
        found.append(aborted)
    return found


class AbortedIndex:
    __slots__ = ("_base_offset", "_file", "_handles", "_storage", "_unwritten", "exists", "path", "size")

    def __init__(
        self, storage: Storage, handles: HandleCache, path: str, base_offset: int, size: int | None
    ) -> None:
        """``base_offset``: of the segment. ``size`` is the file's; None if there is no file."""
        self._base_offset = base_offset
        self._storage = storage
        self._handles = handles
        self._file: File | None = None
        self.path = path
        self.exists = size is not None
        self.size = size or 0  # Bytes of whole entries, unless a crash tore the file.
        self._unwritten: list[AbortedTransaction] = []  # The last ones, since the disk failed.

    def __len__(self) -> int:
        return self.size // ENTRY_SIZE

    @property
    def is_empty(self) -> bool:
        return not self.size and not self._unwritten

    @property
    def is_torn(self) -> bool:
        """Whether the file ends inside an entry: then it must be rebuilt."""
        return self.size % ENTRY_SIZE != 0

    def adopt(self, handles: HandleCache) -> None:
        self.release()
        self._handles = handles

    def create(self) -> None:
        """Create an empty file, where one is required."""
        self._open()

    def _open(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._storage.open(self.path, create=not self.exists)
            self.exists = True
            self._handles.add(self)
        return file

    def release(self) -> None:
        """Close the file."""
        self._file = None
        self._handles.discard(self)

    # -- writing -----------------------------------------------------------------------

    def append(self, aborted: AbortedTransaction) -> None:
        """Readers find it even if this raises OSError. The file is rebuilt when the log is opened again."""
        if self._unwritten:
            self._unwritten.append(aborted)
            return
        try:
            self._open().write_at(self.size, encode((aborted,)))
        except OSError:
            self._unwritten.append(aborted)
            raise
        self.size += ENTRY_SIZE

    def truncate(self, end_offset: int) -> None:
        """Remove the transactions whose marker is at or after ``end_offset``."""
        self._unwritten = [each for each in self._unwritten if each.last_offset < end_offset]
        self._cut(self._first_ending_at(end_offset))

    def _cut(self, count: int) -> None:
        if self.size > count * ENTRY_SIZE:
            self._open().truncate(count * ENTRY_SIZE)
            self.size = count * ENTRY_SIZE

    def replace(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Put a new file in the place of a damaged one. If that fails, and after a crash, the damaged one is
        still there and readers find the damage again. A part of the new one would look intact.
        """
        if transactions or self.exists:
            data = encode(transactions)
            replace_whole(self._storage, self.path, data)
            self.release()
            self.exists, self.size = True, len(data)
        self._unwritten.clear()

    def correct(self, transactions: Sequence[AbortedTransaction]) -> bool:
        """Replace the file unless it is exactly this list; returns whether it was replaced."""
        with suppress(OSError):  # What cannot be read is replaced.
            data = self._open().read_at(0, self.size) if self.exists else b""
            if data == encode(transactions):
                return False
        self.replace(transactions)
        return True

    # -- reading -----------------------------------------------------------------------

    def find(
        self, start_offset: int, end_offset: int, segment_end: int = LONG_MAX
    ) -> tuple[list[AbortedTransaction], bool]:
        """Those with records in ``[start_offset, end_offset)``, and whether later segments have none.
        ``segment_end``: exclusive, of the segment's offsets.
        """
        found: list[AbortedTransaction] = []
        number = self._first_ending_at(start_offset, segment_end)
        while number < len(self):
            for aborted in self._read(number, _READ_ENTRIES, segment_end):
                if aborted.first_offset < end_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= end_offset:
                    return found, True
            number += _READ_ENTRIES
        found += (
            aborted
            for aborted in self._unwritten
            if aborted.first_offset < end_offset and aborted.last_offset >= start_offset
        )
        return found, False

    def _first_ending_at(self, offset: int, segment_end: int = LONG_MAX) -> int:
        """Number of the first entry whose marker is at or after ``offset``."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._read(middle, 1, segment_end)[0].last_offset >= offset:
                high = middle
            else:
                low = middle + 1
        return low

    def _read(self, number: int, count: int, segment_end: int) -> list[AbortedTransaction]:
        count = min(count, len(self) - number)
        data = self._open().read_at(number * ENTRY_SIZE, count * ENTRY_SIZE)
        return decode(data, self._base_offset, segment_end)
