"""Arrow record batches around the compiled loops.

Owns the buffers: their maximum sizes, and which parts become columns. A value is never longer than its
record, so the records' own size is enough and one pass over them suffices; only record headers, which are
rarely read, are measured first.
"""

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from tidelog.spark.kernel import native
from tidelog.spark.kernel import slots as s

TABLE_ROWS = 1024

_WANTED = {
    "key": s.WANT_KEY,
    "value": s.WANT_VALUE,
    "offset": s.WANT_OFFSET,
    "timestamp": s.WANT_TIMESTAMP,
    "timestampType": s.WANT_TYPE,
    "headers": s.WANT_HEADERS,
}


class BrokenRecords(Exception):
    """The records of a batch do not match its header; ``batch`` is its row in the table."""

    def __init__(self, batch: int) -> None:
        super().__init__(f"the records of batch {batch} cannot be read")
        self.batch = batch


class _Loops(NamedTuple):
    """See :mod:`tidelog.spark.kernel.loops`."""

    outline: native.Loop
    fill: native.Loop
    measure_headers: native.Loop
    fill_headers: native.Loop
    pack: native.Loop


@cache
def _loops() -> _Loops:
    uses = ("tidelog.spark.kernel.slots", "tidelog.spark.kernel.machine")
    return _Loops(*native.load("tidelog.spark.kernel.loops", _Loops._fields, uses))


def warm() -> None:
    """Compile the machine code now: for images that are read-only later."""
    _loops()


class Table:
    """The outline of fetched batches, one row each."""

    def __init__(self, rows: int = TABLE_ROWS) -> None:
        self._rows = rows
        self._numbers = (ctypes.c_int64 * (rows * s.TABLE_COLUMNS))()
        self._told = (ctypes.c_int64 * s.OUTLINE_SLOTS)()
        self.address = ctypes.addressof(self._numbers)
        self.count = 0

    def outline(self, address: int, size: int, position: int) -> int:
        """Add whole batches from ``position`` on, as many as there is room for; returns why it ended."""
        told = self._told
        told[s.OUTLINE_DATA] = address
        told[s.OUTLINE_SIZE] = size
        told[s.OUTLINE_TABLE] = self.address
        told[s.OUTLINE_ROWS] = self._rows
        told[s.OUTLINE_POSITION] = position
        self.count = _loops().outline(ctypes.addressof(told))
        return told[s.OUTLINE_STOP]

    @property
    def position(self) -> int:
        """After the last batch that was added."""
        return self._told[s.OUTLINE_POSITION]

    @property
    def kinds(self) -> int:
        """The attributes of all batches, or-ed."""
        return self._told[s.OUTLINE_KINDS]

    @property
    def records(self) -> int:
        """The number of records that the batches claim."""
        return self._told[s.OUTLINE_RECORDS]

    def column(self, number: int) -> list[int]:
        return self._numbers[number : self.count * s.TABLE_COLUMNS : s.TABLE_COLUMNS]

    def row(self, index: int) -> list[int]:
        start = index * s.TABLE_COLUMNS
        return self._numbers[start : start + s.TABLE_COLUMNS]

    def put(self, rows: Sequence[Sequence[int]]) -> None:
        """Replace all rows; no more than there is room for."""
        flat = array("q", [number for row in rows for number in row])
        ctypes.memmove(self.address, flat.buffer_info()[0], 8 * len(flat))
        self.count = len(rows)


class ColumnBuilder:
    """Turns the batches of a table into record batches of one schema, for one partition."""

    def __init__(self, schema: pa.Schema, topic: str, partition: int) -> None:
        self._schema = schema
        self._topic = topic.encode()
        self._partition = partition
        self._wanted = sum(_WANTED.get(name, 0) for name in schema.names)
        self._told = (ctypes.c_int64 * s.FILL_SLOTS)()
        self._constants: dict[str, pa.Array] = {}

    def build(
        self, table: Table, rows_max: int, bytes_max: int, start_offset: int, end_offset: int
    ) -> pa.RecordBatch:
        """The records of the table's batches with offsets in [start, end)."""
        buffers: dict[int, pa.Buffer] = {}
        told = self._told
        told[s.TABLE] = table.address
        told[s.BATCHES] = table.count
        told[s.START_OFFSET] = start_offset
        told[s.END_OFFSET] = end_offset
        told[s.WANTED] = self._wanted
        for slot, size in self._sizes(rows_max, bytes_max):
            buffers[slot] = pa.allocate_buffer(size + s.PADDING_BYTES)
            told[slot] = buffers[slot].address
        rows = _loops().fill(ctypes.addressof(told))
        if rows < 0:
            raise BrokenRecords(-1 - rows)
        arrays = [self._array(field, rows, rows_max, buffers) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _sizes(self, rows: int, size: int) -> list[tuple[int, int]]:
        wanted = self._wanted
        sizes: list[tuple[int, int]] = []
        if wanted & s.WANT_KEY:
            sizes += [(s.KEY_ENDS, 4 * rows + 4), (s.KEY_VALID, rows), (s.KEY_BYTES, size)]
        if wanted & s.WANT_VALUE:
            sizes += [(s.VALUE_ENDS, 4 * rows + 4), (s.VALUE_VALID, rows), (s.VALUE_BYTES, size)]
        if wanted & s.WANT_OFFSET:
            sizes.append((s.OFFSETS, 8 * rows))
        if wanted & s.WANT_TIMESTAMP:
            sizes.append((s.TIMESTAMPS, 8 * rows))
        if wanted & s.WANT_TYPE:
            sizes.append((s.TYPES, 4 * rows))
        if wanted & s.WANT_HEADERS:
            sizes.append((s.HEADER_SPANS, 16 * rows))
        return sizes

    def _array(self, field: pa.Field, rows: int, rows_max: int, buffers: dict[int, pa.Buffer]) -> pa.Array:
        name = field.name
        if name == "key":
            return self._bytes(field.type, rows, buffers, s.KEY_ENDS, s.KEY_SIZE)
        if name == "value":
            return self._bytes(field.type, rows, buffers, s.VALUE_ENDS, s.VALUE_SIZE)
        if name == "offset":
            return _fixed(field.type, rows, buffers[s.OFFSETS], 8)
        if name == "timestamp":
            return _fixed(field.type, rows, buffers[s.TIMESTAMPS], 8)
        if name == "timestampType":
            return _fixed(field.type, rows, buffers[s.TYPES], 4)
        if name == "headers":
            return _headers(field.type, rows, buffers[s.HEADER_SPANS])
        return self._constant(name, field.type, rows, rows_max)

    def _bytes(
        self, kind: pa.DataType, rows: int, buffers: dict[int, pa.Buffer], ends: int, size: int
    ) -> pa.Array:
        """``ends``, ``ends + 1`` and ``ends + 2`` are the slots of ends, valid bytes and content."""
        length, nulls = self._told[size], self._told[size + 1]
        return pa.Array.from_buffers(
            kind,
            rows,
            [
                _bitmap(buffers[ends + 1].address, rows, nulls),
                buffers[ends].slice(0, 4 * rows + 4),
                buffers[ends + 2].slice(0, length),
            ],
            null_count=nulls,
        )

    def _constant(self, name: str, kind: pa.DataType, rows: int, rows_max: int) -> pa.Array:
        """Topic and partition are the same in every row of a task: created once, as long as needed."""
        found = self._constants.get(name)
        if found is None or len(found) < rows:
            value = self._topic.decode() if name == "topic" else self._partition
            found = self._constants[name] = pa.repeat(pa.scalar(value, kind), max(rows_max, rows))
        return found.slice(0, rows)


def _fixed(kind: pa.DataType, rows: int, buffer: pa.Buffer, width: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, buffer.slice(0, width * rows)], null_count=0)


def _bitmap(valid: int, rows: int, nulls: int) -> pa.Buffer | None:
    if not nulls:
        return None
    bits = pa.allocate_buffer((rows + 7) // 8)
    told = (ctypes.c_int64 * s.PACK_SLOTS)(valid, rows, bits.address)
    _loops().pack(ctypes.addressof(told))
    return bits


def _headers(kind: Any, rows: int, spans: pa.Buffer) -> pa.Array:
    """A list for each row; null, as in Spark's own source, if a record has no headers."""
    told, buffers = _filled_headers(rows, spans)
    entry, count = kind.value_type, told[s.ENTRIES]
    name = pa.Array.from_buffers(
        entry.field(0).type, count, [None, buffers[s.NAME_ENDS], buffers[s.NAME_BYTES]], null_count=0
    )
    nulls = told[s.CONTENT_NULLS]
    bitmap = _bitmap(buffers[s.CONTENT_VALID].address, count, nulls)
    content = pa.Array.from_buffers(
        entry.field(1).type,
        count,
        [bitmap, buffers[s.CONTENT_ENDS], buffers[s.CONTENT_BYTES]],
        null_count=nulls,
    )
    pairs = pa.Array.from_buffers(entry, count, [None], null_count=0, children=[name, content])
    empty = told[s.EMPTY_LISTS]
    bitmap = _bitmap(buffers[s.LIST_VALID].address, rows, empty)
    return pa.Array.from_buffers(
        kind, rows, [bitmap, buffers[s.LIST_ENDS]], null_count=empty, children=[pairs]
    )


def _filled_headers(
    rows: int, spans: pa.Buffer
) -> "tuple[ctypes.Array[ctypes.c_int64], dict[int, pa.Buffer]]":
    """What the loops say of the headers, and the buffers that they filled, by slot."""
    told = (ctypes.c_int64 * s.HEADER_SLOTS)()
    told[s.SPANS] = spans.address
    told[s.SPAN_ROWS] = rows
    if _loops().measure_headers(ctypes.addressof(told)) < 0:
        raise BrokenRecords(0)
    entries = told[s.ENTRIES]
    sizes = {
        s.LIST_ENDS: 4 * rows + 4,
        s.LIST_VALID: rows,
        s.NAME_ENDS: 4 * entries + 4,
        s.NAME_BYTES: told[s.NAME_SIZE],
        s.CONTENT_ENDS: 4 * entries + 4,
        s.CONTENT_VALID: entries,
        s.CONTENT_BYTES: told[s.CONTENT_SIZE],
    }
    buffers = {slot: pa.allocate_buffer(size + s.PADDING_BYTES) for slot, size in sizes.items()}
    for slot, buffer in buffers.items():
        told[slot] = buffer.address
    _loops().fill_headers(ctypes.addressof(told))
    return told, {slot: buffer.slice(0, sizes[slot]) for slot, buffer in buffers.items()}
