"""Rows to JSON values that are valid by a JSON Schema."""

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.json_schema import validator
from tidelog.spark.schemas.registry import Registered


def json_encoder(schema: Registered, referenced: Sequence[tuple[str, Registered]]) -> Callable[[Any], bytes]:
    try:
        documents = {name: json.loads(one.text) for name, one in referenced}
        is_valid = validator(json.loads(schema.text), documents)
    except ValueError as error:
        raise OptionError(f"The JSON Schema is not valid JSON: {error}.") from None

    def encode(row: Any) -> bytes:
        said = _plain(row)
        if not is_valid(said):
            raise OptionError(f"A row is not valid by the JSON Schema: {json.dumps(said)[:200]}.")
        return msgspec.json.encode(said)

    return encode


def _plain(value: Any) -> Any:
    """Fields without a value are left out: few schemas allow null."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):  # a map
            return {str(name): _plain(one) for name, one in value}
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
