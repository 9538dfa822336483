"""One Avro value → JSON values, for people. Pure.

Every length is checked before anything is made of it: both schema and value come from strangers. What a
schema says about logical types is shown as people write it; bytes are shown as hexadecimal digits.
"""

import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

DEPTH_MAX = 64
ITEMS_MAX = 100_000  # of all arrays and maps of a value: items without bytes cost nothing to claim

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class NoAvro(ValueError):
    """The bytes are no value of the schema, or the schema is none."""


class Names:
    """The named types of a schema and of those that it refers to."""

    def __init__(self, schemas: Iterable[Any]) -> None:
        """The last one is the schema itself; the others come before it."""
        self._known: dict[str, tuple[Any, str]] = {}
        self.root: Any = None
        for schema in schemas:
            self.root = schema
            self._learn(schema, "", 0)

    def find(self, name: str, space: str) -> tuple[Any, str]:
        """A named type and the namespace in it."""
        for full in (name,) if "." in name or not space else (f"{space}.{name}", name):
            if full in self._known:
                return self._known[full]
        raise NoAvro(f"there is no type {name}")

    def _learn(self, schema: Any, space: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise NoAvro("the schema is too deep")
        if isinstance(schema, list):
            for branch in schema:
                self._learn(branch, space, depth + 1)
        if not isinstance(schema, dict):
            return
        name = schema.get("name")
        if isinstance(name, str) and schema.get("type") in ("record", "error", "enum", "fixed"):
            space = name.rpartition(".")[0] or str(schema.get("namespace") or space)
            short = name.rpartition(".")[2]
            self._known[f"{space}.{short}" if space else short] = (schema, space)
        for field in _listed(schema.get("fields")):
            if isinstance(field, dict):
                self._learn(field.get("type"), space, depth + 1)
        for inner in ("type", "items", "values"):
            if isinstance(schema.get(inner), dict | list):
                self._learn(schema[inner], space, depth + 1)


def value_of(data: bytes, names: Names) -> Any:
    """What can be written as JSON. Raises NoAvro, also if bytes are left over."""
    reader = _Reader(data, names)
    found = reader.value(names.root, "", 0)
    if reader.position != len(data):
        raise NoAvro(f"{len(data) - reader.position} bytes are left over")
    return found


class _Reader:
    def __init__(self, data: bytes, names: Names) -> None:
        self._data = data
        self._names = names
        self._items = 0
        self.position = 0

    def value(self, schema: Any, space: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise NoAvro("the value is too deep")
        if isinstance(schema, list):
            place = self._long()
            if not 0 <= place < len(schema):
                raise NoAvro("no such branch of a union")
            return self.value(schema[place], space, depth + 1)
        if isinstance(schema, str):
            return self._named(schema, space, depth)
        if not isinstance(schema, dict):
            raise NoAvro("the schema is none")
        return self._of_schema(schema, space, depth)

    def _of_schema(self, schema: Mapping[str, Any], space: str, depth: int) -> Any:
        kind = schema.get("type")
        if kind in ("record", "error"):
            return self._record(schema, space, depth)
        if kind == "enum":
            return _at(_listed(schema.get("symbols")), self._long())
        if kind == "array":
            return [item for _, item in self._blocks(schema.get("items"), space, depth, keyed=False)]
        if kind == "map":
            return dict(self._blocks(schema.get("values"), space, depth, keyed=True))
        if kind == "fixed":
            return _as_logical(schema, self._take(_number(schema.get("size"))))
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _as_logical(schema, self._primitive(kind))
        return self.value(kind, space, depth + 1)

    def _named(self, name: str, space: str, depth: int) -> Any:
        if name in _PRIMITIVES:
            return _as_logical({}, self._primitive(name))
        schema, inside = self._names.find(name, space)
        return self.value(schema, inside, depth + 1)

    def _record(self, schema: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        name = str(schema.get("name", ""))
        space = name.rpartition(".")[0] or str(schema.get("namespace") or space)
        found = {}
        for field in _listed(schema.get("fields")):
            if not isinstance(field, dict):
                raise NoAvro("the schema is none")
            found[str(field.get("name"))] = self.value(field.get("type"), space, depth + 1)
        return found

    def _blocks(self, schema: Any, space: str, depth: int, *, keyed: bool) -> Iterable[tuple[str, Any]]:
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block in bytes
            self._items += count
            if self._items > ITEMS_MAX:
                raise NoAvro("too many items")
            for _ in range(count):
                key = self._text() if keyed else ""
                yield key, self.value(schema, space, depth + 1)

    def _primitive(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1) != b"\x00"
        if kind in ("int", "long"):
            return self._long()
        if kind == "float":
            return _FLOAT.unpack(self._take(4))[0]
        if kind == "double":
            return _DOUBLE.unpack(self._take(8))[0]
        return self._text() if kind == "string" else self._take(self._long())

    def _text(self) -> str:
        try:
            return self._take(self._long()).decode()
        except UnicodeDecodeError:
            raise NoAvro("a string that is no text") from None

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.position:
            raise NoAvro("it ends too early")
        begin, self.position = self.position, self.position + size
        return self._data[begin : self.position]

    def _long(self) -> int:
        value = shift = 0
        while True:
            [byte] = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise NoAvro("a number without an end")


def _at(symbols: list[Any], place: int) -> str:
    if not 0 <= place < len(symbols):
        raise NoAvro("no such symbol")
    return str(symbols[place])


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _number(found: Any) -> int:
    return found if isinstance(found, int) else -1


def _as_logical(schema: Mapping[str, Any], value: Any) -> Any:
    logical = schema.get("logicalType")
    try:
        if logical == "decimal" and isinstance(value, bytes):
            return _decimal(value, _number(schema.get("scale", 0)))
        if logical == "date" and isinstance(value, int):
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        if logical in ("timestamp-millis", "timestamp-micros") and isinstance(value, int):
            unit = timedelta(milliseconds=1) if logical == "timestamp-millis" else timedelta(microseconds=1)
            return (EPOCH + value * unit).isoformat()
    except (OverflowError, ValueError, ArithmeticError):
        pass  # As it is written, then.
    return value.hex() if isinstance(value, bytes) else value


def _decimal(data: bytes, scale: int) -> str:
    if len(data) > 64 or not 0 <= scale < 1000:
        raise ValueError
    exact = Context(prec=200)
    return str(Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, exact))
