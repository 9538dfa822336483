"""The two sparse indexes of a segment: from offset to position, and from time to offset.

Owns their files and formats (Kafka's, big endian) and the search in them. An index has entries for some of
the batches; a look-up hops over batch headers for the rest, at most ``index.interval.bytes`` and one batch.

================ ============================================================================================
``.index``       4 bytes last offset of a batch relative to the base offset, 4 bytes position of that batch
``.timeindex``   8 bytes largest timestamp so far, 4 bytes relative last offset of the batch that holds it
================ ============================================================================================

Files are mapped when first needed. The index of an active segment grows in steps, and its file holds zeros
after the entries; when the segment becomes inactive or the log closes, the file is cut to its entries. An
index need not survive a crash: recovery rebuilds it from the batches.

**No entry is trusted.** An index has no checksum. It is checked as a whole when it is first used: both
columns rise, inside the segment. Each entry that is used is compared with the header of its batch
(:mod:`tidelog.log.segment`). If either check fails, the index is rebuilt from the batches.
"""

import sys
from array import array
from collections.abc import Callable
from itertools import islice
from operator import lt
from struct import Struct
from typing import ClassVar

from tidelog.invariant import invariant
from tidelog.log.handles import HandleCache
from tidelog.log.storage import Mapping, Storage

_FIRST_STEP_BYTES = 4096
_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
NO_ENTRY = -1, 0


class DamagedIndex(Exception):
    """The entries are wrong: too few bytes, out of order, or positions that the log does not have."""


def _rises(column: "array[int]") -> bool:
    return all(map(lt, column, islice(column, 1, None)))


def _numbers(data: bytes, kind: str) -> "array[int]":
    """Decode big-endian numbers, all at once."""
    numbers = array(kind, data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def offset_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(last offset, position) of each entry."""
    whole = len(data) - len(data) % _OFFSET_ENTRY.size
    return [
        (base_offset + relative, position) for relative, position in _OFFSET_ENTRY.iter_unpack(data[:whole])
    ]


def time_entries(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """(timestamp, offset) of each entry."""
    whole = len(data) - len(data) % _TIME_ENTRY.size
    return [
        (timestamp, base_offset + relative) for timestamp, relative in _TIME_ENTRY.iter_unpack(data[:whole])
    ]


class SparseIndex:
    """What both indexes share: a mapped file of fixed-size entries, appended to in order."""

    __slots__ = (
        "_bytes_max", "_capacity", "_handles", "_mapping", "_storage", "_view", "base_offset", "count",
        "path", "writable",
    )  # fmt: skip
    entry_size: ClassVar[int]

    def __init__(
        self,
        storage: Storage,
        handles: HandleCache,
        path: str,
        base_offset: int,
        file_size: int,
        bytes_max: int,
    ) -> None:
        self._storage = storage
        self._handles = handles
        self.path = path
        self.base_offset = base_offset
        self.count = file_size // self.entry_size  # Entries; the zeros after them do not count.
        self.writable = False  # Whether the segment is active.
        self._bytes_max = bytes_max - bytes_max % self.entry_size
        self._mapping: Mapping | None = None
        self._view: memoryview | None = None
        self._capacity = (
            0  # Bytes of the mapping if it is writable, else 0: look-ups alone never extend a file.
        )

    @property
    def full(self) -> bool:
        """Whether the segment must roll. The last slot is reserved for the entry that rolling adds."""
        return (self.count + 1) * self.entry_size >= self._bytes_max

    def resize_limit(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max - bytes_max % self.entry_size

    def view(self) -> memoryview:
        """The mapped entries; there must be at least one."""
        view = self._view
        if view is None:
            return self._map(self.count * self.entry_size, writable=False)
        self._handles.touch(self)
        return view

    def _map(self, size: int, *, writable: bool) -> memoryview:
        mapping = self._storage.map(self.path, size, writable=writable)
        self._mapping, self._view = mapping, mapping.view
        self._capacity = size if writable else 0
        self._handles.add(self)
        return mapping.view

    def _room_for_entry(self) -> memoryview:
        """The mapping, grown if needed. May raise ``OSError`` (disk full): then no entry was added."""
        view = self._view
        needed = (self.count + 1) * self.entry_size
        if view is not None and needed <= self._capacity:
            self._handles.touch(self)
            return view
        invariant(self.writable, "only the index of an active segment grows", self.path)
        self._unmap()
        step = max(_FIRST_STEP_BYTES, 1 << needed.bit_length())
        return self._map(max(needed, min(self._bytes_max, step)), writable=True)

    def _unmap(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        self._mapping = self._view = None
        self._capacity = 0

    def release(self) -> None:
        """Unmap; the next look-up maps again."""
        self._unmap()
        self._handles.discard(self)

    def trim(self) -> None:
        """Cut the file to its entries and stop writing."""
        self.release()
        self.writable = False
        self._storage.open(self.path, create=True).truncate(self.count * self.entry_size)

    def reset(self) -> None:
        """Remove all entries and start again, as recovery does."""
        self.release()
        self._storage.open(self.path, create=True).truncate(0)
        self.count = 0
        self.writable = True

    def replace(self, entries: bytes | bytearray) -> None:
        """Have these entries and no others; :meth:`reset` came before."""
        self._storage.open(self.path, create=True).write_at(0, entries)
        self.count = len(entries) // self.entry_size

    def activate(self) -> None:
        """The segment becomes active (again)."""
        if not self.writable:
            self.release()
            self.writable = True

    def whole(self) -> bytes:
        """All entries in the file, read without a mapping."""
        size = self.count * self.entry_size
        if self._view is not None:
            return bytes(self._view[:size])
        data = self._storage.open(self.path).read_at(0, size)
        if len(data) < size:
            raise DamagedIndex(f"{self.path} ends inside an entry")
        return data

    def first_entry(self, is_behind: Callable[[int], bool]) -> int:
        """Number of the first entry for which ``is_behind(number)`` holds; it must hold for all after it."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if is_behind(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def tail(self) -> bytes:
        """The last entry read from the file, without mapping it; empty if there is none."""
        if self.count == 0:
            return b""
        if self._view is not None:
            end = self.count * self.entry_size
            return bytes(self._view[end - self.entry_size : end])
        at = (self.count - 1) * self.entry_size
        tail = self._storage.open(self.path).read_at(at, self.entry_size)
        if len(tail) < self.entry_size:
            raise DamagedIndex(f"{self.path} ends inside an entry")
        return tail


class OffsetIndex(SparseIndex):
    __slots__ = ()
    entry_size = _OFFSET_ENTRY.size

    def append(self, last_offset: int, position: int) -> None:
        view = self._room_for_entry()
        _OFFSET_ENTRY.pack_into(view, self.count * 8, last_offset - self.base_offset, position)
        self.count += 1

    def entry(self, number: int) -> tuple[int, int]:
        """(last offset, position) of one entry."""
        relative, position = _OFFSET_ENTRY.unpack_from(self.view(), number * 8)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int] | None:
        tail = self.tail()
        if not tail:
            return None
        relative, position = _OFFSET_ENTRY.unpack(tail)
        return self.base_offset + relative, position

    def floor(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of a batch at or before the first one that ends at or after ``offset``: the
        newest such entry. (-1, 0) if there is none: start at the first batch.
        """
        low, high = 0, self.count
        if high == 0:
            return NO_ENTRY
        view = self.view()
        target = offset - self.base_offset
        unpack = _OFFSET_ENTRY.unpack_from
        relative, position = unpack(view, high * 8 - 8)
        if relative > target:
            # Invariant: entries before `low` are <= target, entries from `high` on are > target.
            while low < high:
                middle = (low + high) // 2
                if unpack(view, middle * 8)[0] <= target:
                    low = middle + 1
                else:
                    high = middle
            if not low:
                return NO_ENTRY
            relative, position = unpack(view, low * 8 - 8)
        return self.base_offset + relative, position

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that end at or after ``offset``."""
        self.count = self.first_entry(lambda number: self.entry(number)[0] >= offset)

    def check(self, log_size: int) -> None:
        """Raise if not all entries can be valid."""
        if not self.count:
            return
        numbers = _numbers(self.whole(), "I")
        offsets, positions = numbers[::2], numbers[1::2]
        # The first batch never gets an entry, so zeros are not one.
        inside = offsets[0] > 0 and positions[0] > 0 and positions[-1] < log_size
        if not (inside and _rises(offsets) and _rises(positions)):
            raise DamagedIndex(f"{self.path} is not in order, or has positions past {log_size}")


class TimeIndex(SparseIndex):
    __slots__ = ()
    entry_size = _TIME_ENTRY.size

    def append(self, timestamp: int, offset: int) -> None:
        """Record a new largest timestamp; one that is not larger than the last entry's adds nothing."""
        if self.count and self.entry(self.count - 1)[0] >= timestamp:
            return
        view = self._room_for_entry()
        _TIME_ENTRY.pack_into(view, self.count * 12, timestamp, offset - self.base_offset)
        self.count += 1

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of one entry."""
        timestamp, relative = _TIME_ENTRY.unpack_from(self.view(), number * 12)
        return timestamp, self.base_offset + relative

    def last(self) -> tuple[int, int] | None:
        tail = self.tail()
        if not tail:
            return None
        timestamp, relative = _TIME_ENTRY.unpack(tail)
        return timestamp, self.base_offset + relative

    def truncate(self, offset: int) -> None:
        """Drop the entries of records at or after ``offset``."""
        self.count = self.first_entry(lambda number: self.entry(number)[1] >= offset)

    def check(self) -> None:
        """Raise if the entries are not in order, as zeros after them would not be."""
        if not self.count:
            return
        words = array("I", self.whole())  # Three for each entry.
        times = array("I", bytes(8 * self.count))
        times[::2], times[1::2] = words[::3], words[1::3]
        offsets = _numbers(words[2::3].tobytes(), "I")
        if not (_rises(_numbers(times.tobytes(), "q")) and _rises(offsets)):
            raise DamagedIndex(f"{self.path} is not in order")
