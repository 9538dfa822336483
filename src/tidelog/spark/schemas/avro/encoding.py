"""Rows to Avro values, by fastavro."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.avro.layout import Layout
from tidelog.spark.schemas.avro.model import MISSING, Node
from tidelog.spark.schemas.avro.reader import parsed
from tidelog.spark.schemas.registry import Registered

Convert = Callable[[Any], Any]


def avro_encoder(
    schema: Registered, referenced: Sequence[tuple[str, Registered]], rows: pa.DataType | None
) -> Callable[[Any], bytes]:
    import fastavro

    avro = parsed(schema, referenced)
    Layout(avro.root)
    _check(avro.root, rows, avro.root.name)
    convert = _convert(avro.root)

    def encode(row: Any) -> bytes:
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, avro.parsed, convert(row), strict=False)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError) as error:
            raise OptionError(
                f"A row does not match the Avro schema: {' '.join(str(error).split())}."
            ) from None
        return out.getvalue()

    return encode


def _check(node: Node, rows: pa.DataType | None, where: str) -> None:
    from tidelog.spark.schemas.writing import refuse_unknown_fields

    others = [one for one in node.branches if one.kind != "null"]
    if len(others) == 1:
        node = others[0]
    if node.kind != "record" or rows is None or not pa.types.is_struct(rows):
        return
    refuse_unknown_fields(rows, {one.name for one in node.fields}, where)
    given = {field.name: field.type for field in rows}
    for one in node.fields:
        if one.name in given:
            _check(one.node, given[one.name], f"{where}.{one.name}")
        elif one.default is MISSING:
            raise OptionError(
                f"The schema needs a field {one.name!r} in {where}, which the rows do not have."
            )


def _convert(node: Node) -> Convert:
    """Rows of Spark's types, as Arrow gives them to Python, to what fastavro takes."""
    if node.kind == "record":
        fields = [(one.name, _convert(one.node)) for one in node.fields]
        return lambda row: {name: convert(row[name]) for name, convert in fields if name in row}
    if node.kind == "array" and node.items is not None:
        item = _convert(node.items)
        return lambda many: [item(one) for one in many]
    if node.kind == "map" and node.items is not None:
        item = _convert(node.items)
        return lambda many: {
            name: item(one) for name, one in (many.items() if isinstance(many, dict) else many)
        }
    if node.kind == "union":
        return _convert_union(node)
    return _same


def _convert_union(node: Node) -> Convert:
    others = [one for one in node.branches if one.kind != "null"]
    if len(others) == 1:
        convert = _convert(others[0])
        return lambda value: None if value is None else convert(value)
    if len(others) == 2 and {one.kind for one in others} in ({"int", "long"}, {"float", "double"}):
        return _same
    members = [(f"member{number}", one, _convert(one)) for number, one in enumerate(others)]

    def chosen(value: Any) -> Any:
        if value is None:
            return None
        set_ = [
            (one.name or one.kind, convert(value[name]))
            for name, one, convert in members
            if value[name] is not None
        ]
        if len(set_) != 1:
            raise OptionError(f"A union has {len(set_)} members with a value; exactly one must have one.")
        return set_[0]

    return chosen


def _same(value: Any) -> Any:
    return value
