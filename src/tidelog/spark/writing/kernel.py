"""The compiled loops behind plain calls, and the rows they work on.

Owns the arrays and the slots of their addresses (:mod:`tidelog.spark.writing.places`); the caller keeps the
arrays alive during the call.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tidelog.spark.kernel import native
from tidelog.spark.writing import places as p

DONE = p.DONE
NO_ROOM = p.NO_ROOM
TOO_LARGE = p.TOO_LARGE
NO_TOPIC = p.NO_TOPIC
NO_SUCH_PARTITION = p.NO_SUCH_PARTITION
HEADER_WITHOUT_KEY = p.HEADER_WITHOUT_KEY

NUMBERS: Any = np.zeros(0, np.int64)
"""No numbers: a missing column."""
BYTES: Any = np.zeros(0, np.uint8)


class BytesColumn(NamedTuple):
    """A binary or string column; without offsets it is a column of nulls."""

    offsets: Any = NUMBERS  # one more than rows
    data: Any = BYTES
    valid: Any = BYTES  # one for each row; empty: all are


class HeadersColumn(NamedTuple):
    """A column of lists of (key, value); without offsets no record has headers."""

    offsets: Any = NUMBERS  # into keys and values
    keys: BytesColumn = BytesColumn()
    values: BytesColumn = BytesColumn()


class Rows(NamedTuple):
    """What is known of each row. All numbers have 64 bits."""

    key: BytesColumn
    value: BytesColumn
    headers: HeadersColumn
    topics: Any  # index of the topic, -1: null; empty: all rows are of topic 0
    partitions: Any  # below 0: by key; empty: all by key
    timestamps_ms: Any  # empty: all have the one of the call


class Slots(NamedTuple):
    """The partitions of all topics, one after the other."""

    first: Any  # for each topic: its partition 0
    counts: Any  # for each topic: how many partitions
    sticky: Any  # for each topic: the current partition of records without a key
    sticky_bytes: Any  # for each topic: how much went there since the last change
    open_chunk: Any  # for each slot, -1: none


class Chunks:
    """An arena and the content of its chunks."""

    def __init__(self, chunk_bytes: int, count: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.arena: Any = np.empty(chunk_bytes * count, np.uint8)
        self.used, self.count, self.base_timestamp, self.max_timestamp, self.slot, self.sealed = (
            np.zeros(count, np.int64) for _ in range(6)
        )
        self.free = np.arange(count - 1, -1, -1, dtype=np.int64)  # a stack
        self.free_count = count
        self.sealed_count = 0


@cache
def _loops() -> list[native.Loop]:
    uses = ("tidelog.spark.writing.places", "tidelog.spark.kernel.machine")
    return native.load("tidelog.spark.writing.loops", ("assign", "fill", "murmur2"), uses)


def assign(rows: Rows, slots: Slots, sticky_bytes_max: int, chosen: Any) -> int:
    """Writes the slot of each row into ``chosen``, or minus the reason if it has none; returns how many have
    none.
    """
    told = _told(rows)
    told[p.FIRST_SLOT] = slots.first.ctypes.data
    told[p.PARTITION_COUNT] = slots.counts.ctypes.data
    told[p.STICKY] = slots.sticky.ctypes.data
    told[p.STICKY_BYTES] = slots.sticky_bytes.ctypes.data
    told[p.STICKY_BYTES_MAX] = sticky_bytes_max
    told[p.CHOSEN] = chosen.ctypes.data
    told[p.END] = len(chosen)
    return _loops()[0](ctypes.addressof(told))


def fill(
    rows: Rows, chosen: Any, start: int, end: int, open_chunk: Any, chunks: Chunks, now_ms: int
) -> tuple[int, int]:
    """Encode rows from ``start`` on, each into its chosen slot; (the first row not done, why it stopped)."""
    told = _told(rows)
    told[p.CHOSEN] = chosen.ctypes.data
    told[p.OPEN_CHUNK] = open_chunk.ctypes.data
    told[p.ARENA] = chunks.arena.ctypes.data
    told[p.CHUNK_BYTES] = chunks.chunk_bytes
    told[p.USED] = chunks.used.ctypes.data
    told[p.COUNT] = chunks.count.ctypes.data
    told[p.BASE_TIMESTAMP] = chunks.base_timestamp.ctypes.data
    told[p.MAX_TIMESTAMP] = chunks.max_timestamp.ctypes.data
    told[p.SLOT] = chunks.slot.ctypes.data
    told[p.FREE] = chunks.free.ctypes.data
    told[p.SEALED] = chunks.sealed.ctypes.data
    told[p.FREE_COUNT], told[p.SEALED_COUNT] = chunks.free_count, chunks.sealed_count
    told[p.START], told[p.END], told[p.NOW] = start, end, now_ms
    reason = _loops()[1](ctypes.addressof(told))
    chunks.free_count, chunks.sealed_count = told[p.FREE_COUNT], told[p.SEALED_COUNT]
    return told[p.START], reason


def murmur2(key: bytes) -> int:
    """The hash of the Java client's partitioner without its sign."""
    held = np.frombuffer(key, np.uint8)
    told = (ctypes.c_int64 * 2)(held.ctypes.data, len(key))
    return _loops()[2](ctypes.addressof(told))


def _told(rows: Rows) -> Any:
    told = (ctypes.c_int64 * p.PLACES)()
    columns = (
        (p.KEY, rows.key),
        (p.VALUE, rows.value),
        (p.HEADER_KEY, rows.headers.keys),
        (p.HEADER_VALUE, rows.headers.values),
    )
    for place, column in columns:
        told[place + p.OFFSETS] = _address(column.offsets)
        told[place + p.DATA] = column.data.ctypes.data
        told[place + p.DATA_END] = column.data.ctypes.data + len(column.data)
        told[place + p.VALID] = _address(column.valid)
    told[p.HEADERS] = _address(rows.headers.offsets)
    told[p.TOPICS] = _address(rows.topics)
    told[p.PARTITIONS] = _address(rows.partitions)
    told[p.TIMESTAMPS] = _address(rows.timestamps_ms)
    return told


def _address(array: Any) -> int:
    return int(array.ctypes.data) if len(array) else 0
