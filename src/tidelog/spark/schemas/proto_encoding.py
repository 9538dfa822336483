"""Rows to Protobuf values."""

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.proto_files import file_descriptor
from tidelog.spark.schemas.protobuf import (
    _JSON_MESSAGES,
    _WRAPPERS,
    indexes_of,
    is_map,
    message_column,
    message_named,
)
from tidelog.spark.schemas.registry import Registered, Registry

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def protobuf_encoder(
    schema: Registered,
    referenced: Sequence[tuple[str, Registered]],
    registry: Registry | None,
    name: str,
    rows: pa.DataType | None,
) -> tuple[bytes, Any]:
    """(the message's indexes, rows to messages)."""
    from google.protobuf import message_factory

    from tidelog.spark.schemas.writing import refuse_unknown_fields

    message = message_named(file_descriptor(schema, referenced, registry), name)
    message_column(message, ())  # refuses recursion
    refuse_unknown_fields(rows, set(message.fields_by_name), message.full_name)
    create = message_factory.GetMessageClass(message)

    def encode(row: Any) -> bytes:
        made = create()
        try:
            _fill(made, row)
            return bytes(made.SerializeToString())
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise OptionError(
                f"A row does not match the Protobuf schema: {' '.join(str(error).split())}."
            ) from None

    return indexes_of(message), encode


def _fill(made: Any, row: Any) -> None:
    fields = made.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        if value is not None:
            _set(made, fields[name], value)


def _set(made: Any, field: Any, value: Any) -> None:
    if is_map(field):
        target, inner = getattr(made, field.name), field.message_type.fields_by_name["value"]
        for key, one in value.items() if isinstance(value, dict) else value:
            if inner.message_type is not None:
                _set_message(target[key], one)
            else:
                target[key] = _scalar(inner, one)
    elif field.is_repeated:
        target = getattr(made, field.name)
        for one in value:
            if field.message_type is not None:
                _set_message(target.add(), one)
            else:
                target.append(_scalar(field, one))
    elif field.message_type is not None:
        target = getattr(made, field.name)
        target.SetInParent()
        _set_message(target, value)
    else:
        setattr(made, field.name, _scalar(field, value))


def _set_message(target: Any, value: Any) -> None:
    name = target.DESCRIPTOR.full_name
    if name in _JSON_MESSAGES:
        from google.protobuf import json_format

        json_format.Parse(value, target)
    elif name == "google.protobuf.Timestamp":
        target.seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
        target.nanos = micros * 1000
    elif name == "google.protobuf.Duration":
        target.FromTimedelta(value)
    elif name.startswith("google.protobuf.") and target.DESCRIPTOR.name in _WRAPPERS:
        target.value = _scalar(target.DESCRIPTOR.fields_by_name["value"], value)
    else:
        _fill(target, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_name.get(value)
        return int(value) if found is None else found.number
    return int(value) if field.cpp_type == field.CPPTYPE_UINT64 else value
