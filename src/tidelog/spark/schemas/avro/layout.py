"""The Arrow columns of a reader's schema, of the types that Spark's own Avro reader has.

Times of day stay numbers: tables cannot hold Spark's TIME. So do timestamps in nanoseconds: PySpark has no
type for them, and any other would round.

A union of null and one type is that type. One of int and long is a long, one of float and double a double;
any other is a struct with a member for each branch.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from tidelog.spark.schemas.avro import slots as s
from tidelog.spark.schemas.avro.model import Node

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
MICROSECONDS = pa.timestamp("us")

_KINDS = {
    "null": (s.NOTHING, pa.null()),
    "boolean": (s.BOOL, pa.bool_()),
    "int": (s.INT32, pa.int32()),
    "long": (s.INT64, pa.int64()),
    "float": (s.FLOAT32, pa.float32()),
    "double": (s.FLOAT64, pa.float64()),
    "bytes": (s.CONTENT, pa.binary()),
    "fixed": (s.CONTENT, pa.binary()),
    "string": (s.CONTENT, pa.string()),
    "enum": (s.SYMBOL, pa.string()),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": UTC_MICROSECONDS,
    "timestamp-micros": UTC_MICROSECONDS,
    "local-timestamp-millis": MICROSECONDS,
    "local-timestamp-micros": MICROSECONDS,
}
_WIDENED = ({"int", "long"}, "long"), ({"float", "double"}, "double")


@dataclass(slots=True)
class Column:
    index: int
    level: int
    kind: int
    type: pa.DataType
    nullable: bool
    node: Node
    children: "list[Column]" = field(default_factory=list)  # of a list one, of a map two
    child_level: int = -1
    end: int = 0  # index after the last column below it
    is_union: bool = False  # children are the branches without null


@dataclass(slots=True)
class Layout:
    """All columns, each before those below it; the first one is the whole value."""

    root: Node
    columns: list[Column] = field(default_factory=list)
    levels: int = 1

    def __post_init__(self) -> None:
        self._add(self.root, 0, True)

    @property
    def type(self) -> pa.DataType:
        return self.columns[0].type

    def _add(self, node: Node, level: int, nullable: bool) -> Column:
        if node.kind == "union":
            return self._add_union(node, level, nullable)
        column = Column(len(self.columns), level, s.NOTHING, pa.null(), nullable, node)
        self.columns.append(column)
        if node.kind == "record":
            column.children = [self._add(one.node, level, nullable=False) for one in node.fields]
            self._make_struct(column, [one.name for one in node.fields])
        elif node.kind == "array":
            self._make_array(column, node)
        elif node.kind == "map":
            self._make_map(column, node)
        else:
            column.kind, column.type = _KINDS[node.kind]
            if node.logical == "decimal":
                column.kind, column.type = s.DECIMAL128, pa.decimal128(node.precision, node.scale)
            column.type = _LOGICAL.get(node.logical, column.type)
        column.end = len(self.columns)
        return column

    def _add_union(self, node: Node, level: int, nullable: bool) -> Column:
        others = [one for one in node.branches if one.kind != "null"]
        nullable = nullable or len(others) < len(node.branches)
        if len(others) < 2:
            return self._add(others[0] if others else Node("null"), level, nullable)
        if len(others) == 2:
            for kinds, wide in _WIDENED:
                if {one.kind for one in others} == kinds:
                    return self._add(Node(wide), level, nullable)
        column = Column(len(self.columns), level, s.NOTHING, pa.null(), nullable, node, is_union=True)
        self.columns.append(column)
        column.children = [self._add(one, level, nullable=True) for one in others]
        self._make_struct(column, [f"member{number}" for number in range(len(others))])
        column.end = len(self.columns)
        return column

    def _make_struct(self, column: Column, names: list[str]) -> None:
        column.kind = s.RECORD
        column.type = pa.struct(
            [pa.field(n, one.type) for n, one in zip(names, column.children, strict=True)]
        )

    def _make_array(self, column: Column, node: Node) -> None:
        column.kind, column.child_level = s.ITEMS, self._new_level()
        column.children = [self._add(_items(node), column.child_level, nullable=False)]
        column.type = pa.list_(pa.field("element", column.children[0].type))

    def _make_map(self, column: Column, node: Node) -> None:
        column.kind, column.child_level = s.ITEMS, self._new_level()
        key = self._add(Node("string"), column.child_level, nullable=False)
        value = self._add(_items(node), column.child_level, nullable=False)
        column.children = [key, value]
        column.type = pa.map_(pa.field("key", key.type, nullable=False), pa.field("value", value.type))

    def _new_level(self) -> int:
        self.levels += 1
        return self.levels - 1


def _items(node: Node) -> Node:
    return node.items or Node("null")
