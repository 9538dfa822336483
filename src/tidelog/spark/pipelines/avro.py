"""Avro values as JSON text, and Avro schemas as Spark's: decoding without Spark's own module.

Spark decodes Avro only with a jar that is not part of the ``pyspark`` package. Here fastavro decodes in the
Python workers, and Spark's JSON reader creates the columns, so JSON and Avro share the rest of the path.
"""

import base64
import datetime
import decimal
import io
import json
from collections.abc import Mapping
from typing import Any

from tidelog.spark.options import OptionError

_PRIMITIVES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}


def parse_schema(text: str) -> Any:
    """The schema for fastavro; refused if it is invalid, or not a record."""
    try:
        import fastavro
    except ModuleNotFoundError:
        raise OptionError("Avro needs fastavro, which is not installed: pip install fastavro.") from None
    try:
        said = json.loads(text)
    except ValueError as error:
        raise OptionError(f"The Avro schema is not valid JSON: {error}.") from None
    try:
        schema = fastavro.parse_schema(said)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise OptionError(f"The Avro schema is invalid: {error!r}.") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise OptionError("The Avro schema is not a record; only records can become columns.")
    return schema


def columns(schema: Mapping[str, Any]) -> str:
    """The fields of a record as Spark's DDL."""
    return ", ".join(f"`{field['name']}` {_type(field['type'])}" for field in schema["fields"])


def _type(schema: Any) -> str:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise OptionError(
                f"The Avro schema has a union of {len(others)} types; allowed: null and one type."
            )
        return _type(others[0])
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:
            raise OptionError(f"The Avro schema names the type {schema!r} again; name each type once.")
        return _PRIMITIVES[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        inner = ", ".join(f"`{field['name']}`: {_type(field['type'])}" for field in schema["fields"])
        return f"struct<{inner}>"
    if kind == "array":
        return f"array<{_type(schema['items'])}>"
    if kind == "map":
        return f"map<string, {_type(schema['values'])}>"
    return _type(kind)


def to_json(value: bytes | None, schema: Any, skipped_bytes: int) -> str | None:
    """None if there is no value, or it does not match the schema."""
    import fastavro

    if value is None:
        return None
    stream = io.BytesIO(value[skipped_bytes:])
    try:
        decoded = fastavro.schemaless_reader(stream, schema, None)
    except Exception:
        # Whatever the bytes are: fastavro raises many kinds of errors for those that do not fit.
        return None
    if stream.read(1):
        return None
    return json.dumps(decoded, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return str(value)
