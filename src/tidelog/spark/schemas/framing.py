"""What is in front of a value: a zero, and the id of its schema in the registry.

A batch of values becomes numbers: where each begins and ends in memory, and its schema id. No Python runs per
value.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

PREFIX_BYTES = 5
NO_ID = -1

_MAGIC = 0


def prefix(schema_id: int) -> bytes:
    return struct.pack(">bI", _MAGIC, schema_id)


@dataclass(frozen=True, slots=True)
class Values:
    """Values in memory. ``starts`` is -1 for a row without a value."""

    array: pa.Array  # keeps the memory
    starts: Any
    ends: Any  # exclusive
    data: Any  # all bytes
    base: int  # address of the first of them

    @classmethod
    def of(cls, array: pa.Array) -> "Values":
        if array.type != pa.binary():
            array = array.cast(pa.binary())
        _, ends, content = array.buffers()
        size = len(array)
        if size == 0 or ends is None:
            nothing = np.zeros(0, np.int64)
            return cls(array, nothing, nothing, np.zeros(0, np.uint8), 0)
        places = np.frombuffer(ends, np.int32)[array.offset : array.offset + size + 1].astype(np.int64)
        data = (
            np.frombuffer(content, np.uint8)
            if content is not None and content.size
            else np.zeros(1, np.uint8)
        )
        base = data.ctypes.data
        starts = places[:-1] + base
        if array.null_count:
            starts[np.asarray(array.is_null())] = -1
        return cls(array, starts, places[1:] + base, data, base)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def has_value(self) -> Any:
        return self.starts >= 0

    def ids(self) -> Any:
        """The schema id of each value; :data:`NO_ID` without a value, or if there is none in front of it."""
        found = np.full(len(self), NO_ID, np.int64)
        framed = np.flatnonzero(self.has_value() & (self.ends - self.starts >= PREFIX_BYTES))
        at = self.starts[framed] - self.base
        numbers = np.zeros(len(at), np.int64)
        for byte in range(1, PREFIX_BYTES):
            numbers = numbers << 8 | self.data[at + byte]
        found[framed] = np.where(self.data[at] == _MAGIC, numbers, NO_ID)
        return found

    def select(self, chosen: Any, skipped: int = 0) -> "Values":
        """These rows, without so many bytes in front."""
        starts = self.starts[chosen]
        starts = np.where(starts >= 0, starts + skipped, -1)
        return Values(self.array, starts, self.ends[chosen], self.data, self.base)

    def contents(self) -> Iterator[bytes | None]:
        """The bytes of each value."""
        view = memoryview(self.data)
        for start, end in zip(
            (self.starts - self.base).tolist(), (self.ends - self.base).tolist(), strict=True
        ):
            yield None if start < 0 else bytes(view[start:end])
