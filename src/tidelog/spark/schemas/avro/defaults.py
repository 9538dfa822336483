"""Default values of a reader's fields: JSON in the schema, a value of the Arrow column here."""

import decimal
from typing import Any

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.avro.model import MISSING, Node

# To the unit of the column.
_FACTORS = {"timestamp-millis": 1000, "local-timestamp-millis": 1000}


def default_value(node: Node, said: Any) -> Any:
    """As ``pyarrow.array`` takes it for the column's type."""
    try:
        return _value(node, said)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
        raise OptionError(
            f"The default {said!r} in the Avro schema is no {node.name or node.kind}."
        ) from None


def _value(node: Node, said: Any) -> Any:
    if node.kind == "union":
        return _union(node, said)
    if node.kind == "null":
        return None
    if node.kind in ("bytes", "fixed"):
        return _bytes(node, said.encode("latin-1"))
    if node.kind in ("array", "map"):
        items = node.items or Node("null")
        if node.kind == "array":
            return [_value(items, one) for one in said]
        return [(str(key), _value(items, one)) for key, one in said.items()]
    if node.kind == "record":
        return {
            one.name: _value(one.node, said.get(one.name, None if one.default is MISSING else one.default))
            for one in node.fields
        }
    if node.kind in ("int", "long"):
        return int(said) * _FACTORS.get(node.logical, 1)
    if node.kind in ("float", "double"):
        return float(said)
    return bool(said) if node.kind == "boolean" else str(said)


def _union(node: Node, said: Any) -> Any:
    """The first branch, as Avro 1.11 demands, unless only another one can hold it."""
    chosen = next((one for one in node.branches if _could_be(one, said)), node.branches[0])
    value = _value(chosen, said)
    others = [one for one in node.branches if one.kind != "null"]
    kinds = {one.kind for one in others}
    if (
        value is None
        or len(others) < 2
        or (len(others) == 2 and kinds in ({"int", "long"}, {"float", "double"}))
    ):
        return value
    return {f"member{number}": value if one is chosen else None for number, one in enumerate(others)}


def _could_be(node: Node, said: Any) -> bool:
    kinds: dict[str, Any] = {
        "null": type(None), "boolean": bool, "int": int, "long": int, "float": (int, float),
        "double": (int, float), "record": dict, "map": dict, "array": list,
    }  # fmt: skip
    if isinstance(said, bool) and node.kind != "boolean":
        return False
    return isinstance(said, kinds.get(node.kind, str))


def _bytes(node: Node, content: bytes) -> Any:
    if node.logical != "decimal":
        return content
    number = int.from_bytes(content, "big", signed=True)
    return decimal.Decimal(number).scaleb(-node.scale, decimal.Context(prec=node.precision + 2))
