"""Writer's and reader's schema to instructions: Avro's schema resolution, done once for each writer's schema.

The writer's schema says which bytes come; the reader's says where they go. What the reader does not have is
skipped; what the writer did not have gets the reader's default. Units of time are converted, although Avro
would read the number as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.spark.schemas.avro import slots as s
from tidelog.spark.schemas.avro.layout import Column, Layout
from tidelog.spark.schemas.avro.model import MISSING, Field, Node
from tidelog.spark.schemas.errors import Undecodable

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_UNITS_PER_SECOND = {"millis": 1000, "micros": 1_000_000, "nanos": 1_000_000_000}
_NUMBERS = {"int": s.VARINT, "long": s.VARINT, "float": s.FLOAT, "double": s.DOUBLE, "boolean": s.BOOLEAN}


class _Mismatch(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Program:
    words: "np.ndarray[Any, np.dtype[np.int64]]"
    lists: int
    constants: dict[int, tuple[Node, Any]]  # by column: fields that the writer did not have


def compile_program(writer: Node, layout: Layout) -> Program:
    """:class:`Undecodable` if no value of the writer fits the reader."""
    compiler = _Compiler()
    try:
        compiler.resolve(writer, layout.root, layout.columns[0])
    except _Mismatch as mismatch:
        raise Undecodable(f"the writer's schema does not fit the reader's: {mismatch}") from None
    return compiler.finish()


@dataclass(slots=True)
class _Compiler:
    code: list[list[int]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    lists: int = 0
    constants: dict[int, tuple[Node, Any]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)

    def finish(self) -> Program:
        if self.written & self.constants.keys():
            raise Undecodable("several branches of the writer's union fit one record of the reader")
        self._emit(s.END)
        words = [word for one in self.code for word in one]
        tables_start = len(words)
        for at in range(0, tables_start, s.WORDS):
            if words[at] in (s.ENUM, s.UNION):
                words[at + 4] += tables_start
        return Program(np.array(words + self.tables, np.int64), self.lists, self.constants)

    def resolve(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        """``reader`` and ``column`` are None: the value is skipped."""
        if writer.kind == "union":
            self._from_union(writer, reader, column)
        elif reader is None or column is None:
            self._plain(writer, None, None)
        elif reader.kind == "union":
            self._into_union(writer, reader, column)
        elif not _fits(writer, reader):
            raise _Mismatch(f"{_told(writer)} is not {_told(reader)}")
        else:
            self.written.add(column.index)
            self._plain(writer, reader, column)

    # -- unions ------------------------------------------------------------------------

    def _from_union(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        union = self._emit(s.UNION, 0, len(writer.branches))
        targets: list[int] = []
        jumps: list[int] = []
        last = _Mismatch("the writer's union is empty")
        for branch in writer.branches:
            start = len(self.code)
            try:
                with self._undone_on_mismatch():
                    self.resolve(branch, reader, column)
            except _Mismatch as mismatch:
                last = mismatch
                targets.append(-1)
                continue
            jumps.append(self._emit(s.JUMP))
            targets.append(start)
        if not jumps:
            raise last
        for jump in jumps:
            self.code[jump][2] = len(self.code)
        self.code[union][4] = self._table(targets)

    def _into_union(self, writer: Node, reader: Node, column: Column) -> None:
        """The first branch of the same type, else the first that the value can be promoted to."""
        exact = [one for one in reader.branches if _is_same(writer, one)]
        others = [one for one in reader.branches if one not in exact]
        for branch in (*exact, *others):
            try:
                with self._undone_on_mismatch():
                    self._into_branch(writer, reader, branch, column)
                return
            except _Mismatch:
                continue
        raise _Mismatch(f"{_told(writer)} is none of the reader's union")

    def _into_branch(self, writer: Node, reader: Node, branch: Node, column: Column) -> None:
        if branch.kind == "null":
            if writer.kind != "null":
                raise _Mismatch(f"{_told(writer)} is not null")
            self._emit(s.NULLS, 0, column.index, column.end, column.level)
            return
        if not column.is_union:
            # Not resolve(): the column may be wider than the branch.
            if not _fits(writer, branch):
                raise _Mismatch(f"{_told(writer)} is not {_told(branch)}")
            self.written.add(column.index)
            self._plain(writer, branch, column)
            return
        chosen = [one for one in reader.branches if one.kind != "null"].index(branch)
        member = column.children[chosen]
        self._emit(s.NULLS, 0, column.index + 1, member.index, column.level)
        self._emit(s.NULLS, 0, member.end, column.end, column.level)
        if column.nullable:
            self._emit(s.STRUCT, column.index)
        self.resolve(writer, branch, member)

    # -- other types ---------------------------------------------------------------------

    def _plain(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        if writer.kind == "record":
            self._record(writer, reader, column)
        elif writer.kind in ("array", "map"):
            self._list(writer, reader, column)
        elif writer.kind == "enum":
            self._enum(writer, reader, column)
        elif writer.kind in ("string", "bytes", "fixed"):
            self._bytes(writer, reader, column)
        elif writer.kind != "null":
            index, store = (0, 0) if column is None else (column.index, column.kind)
            factor = 1 if column is None or reader is None else _factor(writer, reader, column)
            self._emit(_NUMBERS[writer.kind], index, store, writer.kind == "int", factor)

    def _record(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        if reader is None or column is None:
            for one in writer.fields:
                self.resolve(one.node, None, None)
            return
        if column.nullable:
            self._emit(s.STRUCT, column.index)
        places = {
            name: number for number, one in enumerate(reader.fields) for name in (*one.aliases, one.name)
        }
        places |= {one.name: number for number, one in enumerate(reader.fields)}  # a name beats an alias
        filled = set()
        for one in writer.fields:
            place = places.get(one.name)
            if place is None or place in filled:
                self.resolve(one.node, None, None)
                continue
            filled.add(place)
            try:
                self.resolve(one.node, reader.fields[place].node, column.children[place])
            except _Mismatch as mismatch:
                raise _Mismatch(f"{one.name}: {mismatch}") from None
        for number, wanted in enumerate(reader.fields):
            if number not in filled:
                self._default(wanted, column.children[number])

    def _default(self, wanted: Field, column: Column) -> None:
        if wanted.default is MISSING:
            raise _Mismatch(f"the writer has no field {wanted.name}, and the reader no default for it")
        self.constants[column.index] = (wanted.node, wanted.default)

    def _list(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        items = writer.items or Node("null")
        size = max(_size_min(items), 0) + (writer.kind == "map")
        index, level = (0, -1) if column is None else (column.index, column.child_level)
        start = self._emit(s.LIST, index, column is not None, self.lists, level, 0, size)
        self.lists += 1
        children: list[Any] = [None, None] if column is None else column.children
        if writer.kind == "map":
            self._bytes(Node("string"), None, children[0])
        self.resolve(items, None if reader is None else reader.items, children[-1])
        self._emit(s.LOOP, 0, start, level)
        self.code[start][5] = len(self.code)

    def _enum(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        places = list(range(len(writer.symbols)))
        if reader is not None:
            known = {symbol: number for number, symbol in enumerate(reader.symbols)}
            instead = known.get(reader.default_symbol or "", -1)
            places = [known.get(symbol, instead) for symbol in writer.symbols]
        index, store = (0, 0) if column is None else (column.index, column.kind)
        self._emit(s.ENUM, index, store, len(places), self._table(places))

    def _bytes(self, writer: Node, reader: Node | None, column: Column | None) -> None:
        size = writer.size if writer.kind == "fixed" else -1
        if column is None:
            self._emit(s.BYTES, 0, 0, size, 0)
        elif column.kind == s.DECIMAL128:
            limit = 10 ** (reader or writer).precision
            low = limit & (1 << 64) - 1
            low -= (low >> 63) << 64
            self._emit(s.DECIMAL, column.index, column.kind, size, limit >> 64, low)
        else:
            is_text = column.node.kind == "string"
            self._emit(s.BYTES, column.index, column.kind, size, is_text)

    # -- instructions ----------------------------------------------------------------------

    def _emit(self, operation: int, column: int = 0, *arguments: int) -> int:
        words = [operation, column, *map(int, arguments)]
        self.code.append(words + [0] * (s.WORDS - len(words)))
        return len(self.code) - 1

    def _table(self, numbers: list[int]) -> int:
        """Where it begins, counted from the end of the instructions."""
        self.tables += numbers
        return len(self.tables) - len(numbers)

    @contextmanager
    def _undone_on_mismatch(self) -> Iterator[None]:
        sizes, lists = (len(self.code), len(self.tables)), self.lists
        constants, written = dict(self.constants), set(self.written)
        try:
            yield
        except _Mismatch:
            del self.code[sizes[0] :], self.tables[sizes[1] :]
            self.lists, self.constants, self.written = lists, constants, written
            raise


# -- which types fit ---------------------------------------------------------------------


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _has_same_name(writer: Node, reader: Node) -> bool:
    aliases = {_short(one) for one in reader.aliases}
    return _short(writer.name) == _short(reader.name) or _short(writer.name) in aliases


def _is_same(writer: Node, reader: Node) -> bool:
    return writer.kind == reader.kind and writer.name == reader.name and writer.logical == reader.logical


def _fits(writer: Node, reader: Node) -> bool:
    """Without a look at what is inside."""
    if writer.kind != reader.kind:
        return reader.kind in _PROMOTIONS.get(writer.kind, ()) and "decimal" not in (
            writer.logical,
            reader.logical,
        )
    if writer.kind in ("record", "enum", "fixed") and not _has_same_name(writer, reader):
        return False
    if writer.logical == reader.logical == "decimal" and (
        writer.scale != reader.scale or writer.precision > reader.precision
    ):
        return False
    return writer.size == reader.size


def _factor(writer: Node, reader: Node, column: Column) -> int:
    """From the writer's unit of time to the column's; negative: divided by it."""
    if not (units := _UNITS_PER_SECOND.get(reader.logical.rpartition("-")[2])):
        return 1
    had = units
    if _family(writer) == _family(reader):
        had = _UNITS_PER_SECOND[writer.logical.rpartition("-")[2]]
    stored = _UNITS_PER_SECOND["micros"] if pa.types.is_timestamp(column.type) else units
    return stored // had if stored >= had else -(had // stored)


def _family(node: Node) -> str:
    return node.logical.rpartition("-")[0]


def _size_min(node: Node) -> int:
    """The fewest bytes that a value of this type has."""
    if node.kind == "record":
        return sum(_size_min(one.node) for one in node.fields)
    return {"null": 0, "float": 4, "double": 8, "fixed": node.size}.get(node.kind, 1)


def _told(node: Node) -> str:
    return " ".join(filter(None, (node.logical, node.kind, node.name)))
