"""JSON values with a JSON Schema: validated by the writer's schema, turned into columns by the reader's.

An object with properties is a struct, one without a map. What JSON Schema allows and a column does not (a
choice between types, any type) is a column with the JSON text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.errors import Undecodable
from tidelog.spark.schemas.framing import Values
from tidelog.spark.schemas.registry import Registered

Convert = Callable[[Any], Any]

_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_OFFLINE = "json-schema:///"


@dataclass(frozen=True, slots=True)
class Shape:
    """A column of a schema, and how a value becomes one of its rows. May raise :class:`Undecodable`."""

    type: pa.DataType
    convert: Convert


class JsonReader:
    def __init__(self, reader: Registered, referenced: Sequence[tuple[str, Registered]]) -> None:
        documents = {name: _loaded(one.text) for name, one in referenced}
        self._reader, self._documents = _loaded(reader.text), documents
        self._shape = _Shapes(self._reader, documents).shape(self._reader, "", ())

    @property
    def type(self) -> pa.DataType:
        return self._shape.type

    def decoder(
        self, writer: Registered | None, referenced: Sequence[tuple[str, Registered]]
    ) -> Callable[[Values], tuple[pa.Array, Any]]:
        if writer is None:
            is_valid = validator(self._reader, self._documents)
        else:
            is_valid = validator(_loaded(writer.text), {name: _loaded(one.text) for name, one in referenced})
        return lambda values: self._decode(values, is_valid)

    def _decode(self, values: Values, is_valid: Callable[[Any], bool]) -> tuple[pa.Array, Any]:
        rows: list[Any] = []
        bad = np.zeros(len(values), np.uint8)
        for number, content in enumerate(values.contents()):
            row = None
            if content is not None:
                try:
                    said = msgspec.json.decode(content)
                    bad[number] = not is_valid(said)
                    row = None if bad[number] else self._shape.convert(said)
                except (msgspec.DecodeError, Undecodable, ValueError, RecursionError):
                    bad[number] = 1
                if row is None:  # a JSON null has no row either
                    bad[number] = 1
            rows.append(row)
        return pa.array(rows, self._shape.type), bad


def validator(schema: Any, documents: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Whether a value is valid. References are looked up in the registry's documents only."""
    try:
        import jsonschema_rs
    except ModuleNotFoundError:
        raise OptionError(
            "JSON Schema needs jsonschema-rs, which is not installed: pip install 'tidelog[schemas]'."
        ) from None

    def retrieve(uri: str) -> Any:
        name = uri.removeprefix(_OFFLINE)
        if name not in documents:
            raise KeyError(f"{name} is no reference of the schema")
        return documents[name]

    try:
        found = jsonschema_rs.validator_for(schema, retriever=retrieve, base_uri=f"{_OFFLINE}schema")
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise OptionError(f"The JSON Schema is invalid: {' '.join(str(error).split())}.") from None
    is_valid: Callable[[Any], bool] = found.is_valid
    return is_valid


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"The JSON Schema is not valid JSON: {error}.") from None


class _Shapes:
    """Schemas to shapes, in one document and those that it refers to."""

    def __init__(self, document: Any, documents: Mapping[str, Any]) -> None:
        self._documents = {"": document, **documents}

    def shape(self, schema: Any, document: str, within: tuple[str, ...]) -> Shape:
        """``within`` are the references that led here."""
        if not isinstance(schema, dict):
            return _TEXT
        if isinstance(reference := schema.get("$ref"), str):
            return self._referenced(reference, document, within)
        for word in ("oneOf", "anyOf"):
            if word in schema and "properties" not in schema:
                return self._one_of(schema[word], document, within)
        if "allOf" in schema:
            schema = self._merged(schema, document)
        kinds = _kinds(schema)
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1:
            return _TEXT
        (kind,) = kinds
        if kind == "object":
            return self._object(schema, document, within)
        if kind == "array":
            items = schema.get("items")
            one = self.shape(items, document, within) if "prefixItems" not in schema else _TEXT
            return _array(one)
        return _SIMPLE.get(kind, _TEXT)

    def _referenced(self, reference: str, document: str, within: tuple[str, ...]) -> Shape:
        name, found = self._found(reference, document)
        place = f"{name}#{reference.partition('#')[2]}"
        if place in within:
            raise OptionError(
                f"The JSON Schema refers to itself ({reference}); Spark has no recursive types."
            )
        return self.shape(found, name, (*within, place))

    def _found(self, reference: str, document: str) -> tuple[str, Any]:
        name, _, pointer = reference.partition("#")
        name = name or document
        if name not in self._documents:
            raise OptionError(f"The JSON Schema refers to {name}, which is not one of its references.")
        found = self._documents[name]
        for step in filter(None, pointer.split("/")):
            key = step.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, ValueError, IndexError, TypeError):
                raise OptionError(f"The JSON Schema refers to {reference}, which does not exist.") from None
        return name, found

    def _one_of(self, schemas: Any, document: str, within: tuple[str, ...]) -> Shape:
        others = [
            one for one in schemas if not (isinstance(one, dict) and _kinds(one) == set() and _is_null(one))
        ]
        if len(others) == 1:
            return self.shape(others[0], document, within)
        if others and all(isinstance(one, dict) and _kinds(one) <= {"integer", "number"} for one in others):
            return _SIMPLE["number"] if all(map(_kinds, others)) else _TEXT
        return _TEXT

    def _merged(self, schema: Mapping[str, Any], document: str) -> dict[str, Any]:
        """``allOf`` of objects as one object; references in it are followed in this document only."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        properties: dict[str, Any] = dict(merged.get("properties", {}))
        for part in schema["allOf"]:
            if isinstance(part, dict) and isinstance(part.get("$ref"), str):
                name, part = self._found(part["$ref"], document)
                if name != document:
                    return {}
            if not isinstance(part, dict):
                continue
            if "type" in part:
                merged.setdefault("type", part["type"])
            properties |= part.get("properties", {})
        return {**merged, "properties": properties} if properties else merged

    def _object(self, schema: Mapping[str, Any], document: str, within: tuple[str, ...]) -> Shape:
        properties = schema.get("properties")
        if not properties:
            return _map(self.shape(schema.get("additionalProperties"), document, within))
        shapes = {name: self.shape(one, document, within) for name, one in properties.items()}
        converts = [(name, one.convert) for name, one in shapes.items()]

        def convert(value: Any) -> Any:
            if value is None:
                return None
            if not isinstance(value, dict):
                raise Undecodable("not an object")
            return {name: one(value.get(name)) for name, one in converts}

        return Shape(pa.struct([pa.field(name, one.type) for name, one in shapes.items()]), convert)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Its types, without null; empty if it has only null, or says nothing."""
    said = schema.get("type")
    if said is None:
        if "properties" in schema or "additionalProperties" in schema:
            return {"object"}
        values = [schema["const"]] if "const" in schema else schema.get("enum", [])
        return {_kind(one) for one in values if one is not None}
    kinds = {said} if isinstance(said, str) else set(said)
    return kinds - {"null"}


def _is_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("null", ["null"]) or ("const" in schema and schema["const"] is None)


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}
    return kinds.get(type(value), "array")


def _array(item: Shape) -> Shape:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise Undecodable("not an array")
        return [item.convert(one) for one in value]

    return Shape(pa.list_(pa.field("element", item.type)), convert)


def _map(item: Shape) -> Shape:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Undecodable("not an object")
        return [(name, item.convert(one)) for name, one in value.items()]

    return Shape(pa.map_(pa.string(), item.type), convert)


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON Schema counts 1.0 as an integer
    if value is not None and (type(value) is not int or not _LONG_MIN <= value <= _LONG_MAX):
        raise Undecodable("not a whole number of 64 bits")
    return value


def _number(value: Any) -> Any:
    if value is not None and type(value) not in (int, float):
        raise Undecodable("not a number")
    return None if value is None else float(value)


def _of(kind: type) -> Convert:
    def convert(value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise Undecodable(f"not {kind.__name__}")
        return value

    return convert


def _text(value: Any) -> Any:
    return None if value is None else msgspec.json.encode(value).decode()


_TEXT = Shape(pa.string(), _text)
_SIMPLE = {
    "string": Shape(pa.string(), _of(str)),
    "boolean": Shape(pa.bool_(), _of(bool)),
    "integer": Shape(pa.int64(), _integer),
    "number": Shape(pa.float64(), _number),
}
