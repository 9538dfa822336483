"""Protobuf values: the index of the message in front, messages to columns by the reader's schema.

A field without presence has its default, as Protobuf says; one with presence is null if it is not set.
Numbers without a sign become wider ones with a sign. Timestamps, durations and wrappers become Spark's types;
``google.protobuf.Struct`` and the like become JSON text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.errors import Undecodable
from tidelog.spark.schemas.framing import Values
from tidelog.spark.schemas.proto_files import file_descriptor
from tidelog.spark.schemas.registry import Registered, Registry

Convert = Callable[[Any], Any]

_WRAPPERS = {
    "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value", "BoolValue",
    "StringValue", "BytesValue",
}  # fmt: skip
_JSON_MESSAGES = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
_INDEXES_MAX = 100  # of nested messages


class ProtobufReader:
    def __init__(
        self,
        reader: Registered,
        referenced: Sequence[tuple[str, Registered]],
        registry: Registry | None,
        message: str = "",
    ) -> None:
        from google.protobuf import message_factory

        self._registry = registry
        self._file = file_descriptor(reader, referenced, registry)
        self._message = message_named(self._file, message)
        self._class = message_factory.GetMessageClass(self._message)
        self._type, self._convert = message_column(self._message, ())

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decoder(
        self, writer: Registered | None, referenced: Sequence[tuple[str, Registered]]
    ) -> Callable[[Values], tuple[pa.Array, Any]]:
        """Field numbers, not the writer's schema, say where values go; that only names the message."""
        file = self._file if writer is None else file_descriptor(writer, referenced, self._registry)
        return lambda values: self._decode(values, file)

    def _decode(self, values: Values, file: Any) -> tuple[pa.Array, Any]:
        from google.protobuf.message import DecodeError

        rows: list[Any] = []
        bad = np.zeros(len(values), np.uint8)
        names: dict[bytes, bool] = {}  # whether the message with these indexes is the one that is read
        for number, content in enumerate(values.contents()):
            row = None
            if content is not None:
                try:
                    size = indexes_size(content)
                    indexes = content[:size]
                    if indexes not in names:
                        names[indexes] = _indexed(file, indexes).full_name == self._message.full_name
                    if not names[indexes]:
                        raise Undecodable("another message")
                    row = self._convert(self._class.FromString(content[size:]))
                except (DecodeError, Undecodable, UnicodeDecodeError, ValueError, OverflowError):
                    bad[number] = 1
            rows.append(row)
        return pa.array(rows, self._type), bad


# -- indexes in front of the message ---------------------------------------------------------


def indexes_of(message: Any) -> bytes:
    """Where the message is in its file: its place, after those of the messages around it."""
    path: list[int] = []
    one = message
    while one is not None:
        around = one.containing_type
        places = one.file.message_types_by_name.values() if around is None else around.nested_types
        path.insert(0, [other.full_name for other in places].index(one.full_name))
        one = around
    if path == [0]:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(path), *path))


def indexes_size(content: bytes) -> int:
    count, at = _read(content, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise Undecodable("the message index is damaged")
    for _ in range(count):
        _, at = _read(content, at)
    return at


def _indexed(file: Any, content: bytes) -> Any:
    count, at = _read(content, 0)
    path = []
    for _ in range(count):
        number, at = _read(content, at)
        path.append(number)
    messages, found = list(file.message_types_by_name.values()), None
    for number in path or [0]:
        if not 0 <= number < len(messages):
            raise Undecodable("the schema has no such message")
        found = messages[number]
        messages = list(found.nested_types)
    return found


def _read(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(content):
            raise Undecodable("the message index is cut off")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Undecodable("the message index is damaged")


def _zigzag(number: int) -> bytes:
    value, out = number << 1, bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# -- messages as columns ---------------------------------------------------------------------


def message_named(file: Any, name: str) -> Any:
    """The first message of the file without a name."""
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise OptionError("The Protobuf schema has no message.")
    if not name:
        return messages[0]
    for one in messages:
        nested = [one, *one.nested_types]
        for found in nested:
            nested += [more for more in found.nested_types if more not in nested]
            if name in (found.full_name, found.name):
                return found
    names = ", ".join(one.full_name for one in messages)
    raise OptionError(f"The Protobuf schema has no message {name!r}; there are {names}.")


def message_column(message: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if message.full_name in _JSON_MESSAGES:
        return pa.string(), _as_json
    if message.full_name == "google.protobuf.Timestamp":
        return pa.timestamp("us", tz="UTC"), _microseconds
    if message.full_name == "google.protobuf.Duration":
        return pa.duration("us"), _microseconds
    if message.full_name.startswith("google.protobuf.") and message.name in _WRAPPERS:
        kind, convert = _single(message.fields_by_name["value"], within)
        return kind, lambda one: convert(one.value)
    if message.full_name in within:
        raise OptionError(
            f"The Protobuf message {message.full_name} contains itself; Spark has no recursive types."
        )
    within = (*within, message.full_name)
    columns = [(one.name, one.has_presence, *_column(one, within)) for one in message.fields]
    converts = [(name, has_presence, convert) for name, has_presence, _, convert in columns]

    def struct(one: Any) -> Any:
        return {
            name: None if has_presence and not one.HasField(name) else convert(getattr(one, name))
            for name, has_presence, convert in converts
        }

    return pa.struct([pa.field(name, kind) for name, _, kind, _ in columns]), struct


def _column(field: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if is_map(field):
        key, _ = _single(field.message_type.fields_by_name["key"], within)
        value, convert = _single(field.message_type.fields_by_name["value"], within)
        return pa.map_(key, value), lambda many: [(name, convert(many[name])) for name in many]
    kind, convert = _single(field, within)
    if field.is_repeated:
        return pa.list_(pa.field("element", kind)), lambda many: [convert(one) for one in many]
    return kind, convert


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _single(field: Any, within: tuple[str, ...]) -> tuple[pa.DataType, Convert]:
    if field.message_type is not None:
        return message_column(field.message_type, within)
    if field.enum_type is not None:
        names = {one.number: one.name for one in field.enum_type.values}
        return pa.string(), lambda number: names.get(number, str(number))
    kind = _scalar_types()[field.cpp_type]
    return (pa.binary() if field.type == field.TYPE_BYTES else kind), _same


def _scalar_types() -> dict[int, pa.DataType]:
    from google.protobuf.descriptor import FieldDescriptor as Kinds

    return {
        Kinds.CPPTYPE_INT32: pa.int32(),
        Kinds.CPPTYPE_INT64: pa.int64(),
        Kinds.CPPTYPE_UINT32: pa.int64(),
        Kinds.CPPTYPE_UINT64: pa.decimal128(20, 0),
        Kinds.CPPTYPE_DOUBLE: pa.float64(),
        Kinds.CPPTYPE_FLOAT: pa.float32(),
        Kinds.CPPTYPE_BOOL: pa.bool_(),
        Kinds.CPPTYPE_STRING: pa.string(),
    }


def _same(value: Any) -> Any:
    return value


def _microseconds(one: Any) -> int:
    return int(one.seconds) * 1_000_000 + int(one.nanos) // 1000


def _as_json(one: Any) -> str:
    from google.protobuf import json_format

    return str(json_format.MessageToJson(one, indent=None))
