"""Avro schemas as trees: every name looked up, logical types checked, recursion refused.

fastavro checks the schema; what is left here is its meaning.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.spark.options import OptionError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MISSING = object()

# Logical types with the types that they annotate. Any other annotation is ignored, as Avro demands.
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}
DECIMAL_PRECISION_MAX = 38


@dataclass(frozen=True, slots=True)
class Node:
    """One type of a schema; which fields are set depends on ``kind``."""

    kind: str
    logical: str = ""
    name: str = ""  # with its namespace
    aliases: tuple[str, ...] = ()
    fields: "tuple[Field, ...]" = ()
    items: "Node | None" = None  # of an array or map
    branches: "tuple[Node, ...]" = ()  # of a union
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0  # of a fixed
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    node: Node
    default: Any = MISSING  # as JSON
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AvroSchema:
    root: Node
    parsed: Any  # for fastavro
    named: Mapping[str, Any]  # for fastavro


def parse(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """A schema and, before it, those that it uses by name."""
    try:
        import fastavro
    except ModuleNotFoundError:
        raise OptionError("Avro needs fastavro, which is not installed: pip install fastavro.") from None
    named: dict[str, Any] = {}
    parsed: Any = None
    for one in (*references, text):
        try:
            said = json.loads(one)
        except ValueError as error:
            raise OptionError(f"The Avro schema is not valid JSON: {error}.") from None
        try:
            parsed = fastavro.parse_schema(said, named_schemas=named)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise OptionError(f"The Avro schema is invalid: {' '.join(str(error).split())}.") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OptionError(f"The Avro schema is invalid: {error!r}.") from None
    return AvroSchema(_Reader(named).node(parsed, ()), parsed, named)


class _Reader:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def node(self, said: Any, within: tuple[str, ...]) -> Node:
        if isinstance(said, list):
            return Node("union", branches=tuple(self.node(one, within) for one in said))
        if isinstance(said, str):
            if said in PRIMITIVES:
                return Node(said)
            return self.node(self._named[said], within)
        kind = said["type"]
        if isinstance(kind, list | dict):
            return self.node(kind, within)
        if kind in PRIMITIVES or kind == "fixed":
            return _annotated(said, kind)
        if kind == "array":
            return Node("array", items=self.node(said["items"], within))
        if kind == "map":
            return Node("map", items=self.node(said["values"], within))
        if kind == "enum":
            return Node(
                "enum",
                name=said["name"],
                aliases=_aliases(said),
                symbols=tuple(said["symbols"]),
                default_symbol=said.get("default"),
            )
        if kind in ("record", "error"):
            return self._record(said, within)
        return self.node(kind, within)  # a name

    def _record(self, said: Mapping[str, Any], within: tuple[str, ...]) -> Node:
        name = said["name"]
        if name in within:
            raise OptionError(f"The Avro type {name} contains itself; Spark has no recursive types.")
        fields = tuple(
            Field(
                one["name"],
                self.node(one["type"], (*within, name)),
                one.get("default", MISSING),
                tuple(one.get("aliases", ())),
            )
            for one in said["fields"]
        )
        return Node("record", name=name, aliases=_aliases(said), fields=fields)


def _aliases(said: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(said.get("aliases", ()))


def _annotated(said: Mapping[str, Any], kind: str) -> Node:
    size = int(said["size"]) if kind == "fixed" else 0
    name = said["name"] if kind == "fixed" else ""
    logical = str(said.get("logicalType", ""))
    if kind not in _LOGICAL.get(logical, ()) or (logical == "uuid" and kind == "fixed" and size != 16):
        logical = ""
    precision, scale = 0, 0
    if logical == "decimal":
        precision, scale = int(said.get("precision", 0)), int(said.get("scale", 0))
        if not precision > 0 or not 0 <= scale <= precision:
            logical, precision, scale = "", 0, 0
        elif precision > DECIMAL_PRECISION_MAX:
            raise OptionError(
                f"The Avro schema has a decimal of {precision} digits; "
                f"Spark's have at most {DECIMAL_PRECISION_MAX}."
            )
    return Node(kind, logical, name=name, aliases=_aliases(said), size=size, precision=precision, scale=scale)
