"""Avro values of one writer's schema to one Arrow array: the buffers around the compiled loop."""

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.spark.kernel import native
from tidelog.spark.schemas.avro import slots as s
from tidelog.spark.schemas.avro.defaults import default_value
from tidelog.spark.schemas.avro.layout import Column, Layout
from tidelog.spark.schemas.avro.model import Node
from tidelog.spark.schemas.avro.program import compile_program


@lru_cache(maxsize=1)
def _decode() -> native.Loop:
    uses = ("tidelog.spark.schemas.avro.slots", "tidelog.spark.kernel.machine")
    (decode,) = native.load("tidelog.spark.schemas.avro.loops", ["decode"], uses)
    return decode


def warm() -> None:
    """Compile the machine code now: for images that are read-only later."""
    _decode()


class AvroDecoder:
    """:class:`~tidelog.spark.schemas.errors.Undecodable` if no value of the writer fits the reader."""

    def __init__(self, writer: Node, layout: Layout) -> None:
        self._layout = layout
        self._program = compile_program(writer, layout)
        self._constants = {
            index: pa.array([default_value(node, said)], layout.columns[index].type)
            for index, (node, said) in self._program.constants.items()
        }

    def decode(self, starts: Any, ends: Any, data_end: int) -> tuple[pa.Array, Any]:
        """Values between these addresses (a start of -1: no value) as an array; and one byte for each: 1 if
        it does not match.
        """
        call = _Call(self._layout, self._program.words, self._program.lists, starts, ends, data_end)
        call.run()
        return self._array(self._layout.columns[0], call), call.bad

    def _array(self, column: Column, call: "_Call") -> pa.Array:
        rows = int(call.levels[column.level])
        constant = self._constants.get(column.index)
        if constant is not None:
            return constant.take(pa.array(np.zeros(rows, np.int64)))
        if column.kind == s.NOTHING:
            return pa.nulls(rows)
        valid = call.bitmap(column, rows)
        if column.kind == s.RECORD:
            children = [self._array(one, call) for one in column.children]
            return pa.Array.from_buffers(column.type, rows, [valid], children=children)
        if column.kind == s.ITEMS:
            return self._list(column, call, rows, valid)
        if column.kind == s.CONTENT:
            ends, content = pa.py_buffer(call.ends[column.index]), pa.py_buffer(call.values[column.index])
            return pa.Array.from_buffers(column.type, rows, [valid, ends, content])
        values = call.values[column.index]
        if column.kind == s.BOOL:
            values = np.packbits(values[:rows], bitorder="little")
        if column.kind == s.SYMBOL:
            places = pa.Array.from_buffers(pa.int32(), rows, [valid, pa.py_buffer(values)])
            return pa.array(column.node.symbols, pa.string()).take(places)
        return pa.Array.from_buffers(column.type, rows, [valid, pa.py_buffer(values)])

    def _list(self, column: Column, call: "_Call", rows: int, valid: Any) -> pa.Array:
        children = [self._array(one, call) for one in column.children]
        if len(children) == 2:
            entries = pa.struct([column.type.key_field, column.type.item_field])
            items = int(call.levels[column.child_level])
            children = [pa.Array.from_buffers(entries, items, [None], children=children)]
        ends = pa.py_buffer(call.ends[column.index])
        return pa.Array.from_buffers(column.type, rows, [valid, ends], children=children)


class _Call:
    """Memory for one run of the loop: measured in the first pass, filled in the second."""

    def __init__(self, layout: Layout, words: Any, lists: int, starts: Any, ends: Any, data_end: int) -> None:
        self._layout = layout
        rows, count = len(starts), len(layout.columns)
        self.bad = np.zeros(rows, np.uint8)
        self.levels = np.zeros(layout.levels, np.int64)
        self.values: dict[int, Any] = {}
        self.ends: dict[int, Any] = {}
        self._valid: dict[int, Any] = {}
        self._columns = np.zeros((count, s.COLUMN_WORDS), np.int64)
        for one in layout.columns:
            self._columns[one.index, [s.C_LEVEL, s.C_KIND, s.C_CHILD_LEVEL]] = (
                one.level,
                one.kind,
                one.child_level,
            )
        saved = np.zeros(count + layout.levels, np.int64)
        left = np.zeros(lists + 1, np.int64)
        self._told = (ctypes.c_int64 * s.CALL_SLOTS)()
        for slot, numbers in (
            (s.PROGRAM, words), (s.COLUMNS, self._columns), (s.LEVELS, self.levels), (s.LISTS, left),
            (s.STARTS, starts), (s.ENDS, ends), (s.BAD, self.bad), (s.SAVED, saved),
        ):  # fmt: skip
            self._told[slot] = numbers.ctypes.data
        self._told[s.COLUMN_COUNT] = count
        self._told[s.LEVEL_COUNT] = layout.levels
        self._told[s.ROWS] = rows
        self._told[s.DATA_END] = data_end
        self._kept = (words, starts, ends, saved, left)  # the loop knows only their addresses

    def run(self) -> None:
        _decode()(ctypes.addressof(self._told))
        for column in self._layout.columns:
            self._allocate(column)
        self.levels[:] = 0
        self._columns[:, s.C_SIZE] = 0
        self._told[s.FILL] = 1
        _decode()(ctypes.addressof(self._told))

    def _allocate(self, column: Column) -> None:
        rows, words = int(self.levels[column.level]), self._columns[column.index]
        if column.kind == s.CONTENT:
            self.values[column.index] = np.empty(int(words[s.C_SIZE]) + s.PADDING_BYTES, np.uint8)
        elif column.kind in s.WIDTHS:
            # Zeros: rows without a value must not show what was in the memory before.
            self.values[column.index] = np.zeros(rows * s.WIDTHS[column.kind], np.uint8)
        if column.kind in (s.CONTENT, s.ITEMS):
            self.ends[column.index] = np.zeros(rows + 1, np.int32)
            words[s.C_ENDS] = self.ends[column.index].ctypes.data
        if column.nullable:
            self._valid[column.index] = np.zeros(rows, np.uint8)
            words[s.C_VALID] = self._valid[column.index].ctypes.data
        if column.index in self.values:
            words[s.C_VALUES] = self.values[column.index].ctypes.data

    def bitmap(self, column: Column, rows: int) -> pa.Buffer | None:
        valid = self._valid.get(column.index)
        if valid is None or int(valid.sum()) == rows:
            return None
        return pa.py_buffer(np.packbits(valid[:rows], bitorder="little"))
