"""Whether every length and count in a request lies within it: asked before kio parses the request.

kio's parser is native code that makes room for as many elements as a count claims, before it looks for them; a
count of two thousand million in a request of twenty bytes ends the whole process. So each version's layout is
walked first, from the same schema, and kio only sees requests whose elements are all there.

:func:`walker` turns a schema into a function that takes a buffer and a position and returns the position behind
the entity. It raises :class:`Malformed`, or ``IndexError`` and ``struct.error`` where the buffer ends.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from tidelog.protocol.wire import INT16, INT32, Buffer, Malformed, read_uvarint

Walk = Callable[[Buffer, int], int]

_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "float64": 8, "uuid": 16, "timedelta_i32": 4, "timedelta_i64": 8, "datetime_i64": 8,
}  # fmt: skip


@cache
def walker(entity: type[Any]) -> Walk:
    flexible = bool(entity.__flexible__)
    hints = get_type_hints(entity)
    steps = []
    tagged = {}
    for field in fields(entity):
        tag = field.metadata.get("tag")
        if tag is None:
            steps.append(_step(field, hints[field.name], flexible))
        else:
            # The tag's presence says whether there is a value; the value itself is never null.
            tagged[int(tag)] = _step(field, without_none(hints[field.name]), flexible)

    def walk(buffer: Buffer, position: int) -> int:
        for step in steps:
            position = step(buffer, position)
        if flexible:
            position = _walk_tags(buffer, position, tagged)
        if position > len(buffer):
            raise Malformed("the request ends too early")
        return position

    return walk


def without_none(hint: Any) -> Any:
    """The type itself of a field that may be null."""
    if get_origin(hint) in (Union, UnionType):
        return next(argument for argument in get_args(hint) if argument is not type(None))
    return hint


def element_type(hint: Any) -> Any | None:
    """What an array holds; None for what is no array."""
    bare = without_none(hint)
    return get_args(bare)[0] if get_origin(bare) is tuple else None


def _step(field: Field[Any], hint: Any, flexible: bool) -> Walk:
    element = element_type(hint)
    if element is not None:
        return _array(_value(field, without_none(element), flexible), flexible)
    bare = without_none(hint)
    value = _value(field, bare, flexible)
    return _nullable(value) if bare is not hint and hasattr(bare, "__flexible__") else value


def _value(field: Field[Any], kind: Any, flexible: bool) -> Walk:
    if hasattr(kind, "__flexible__"):
        return walker(kind)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in _SIZES:
        size = _SIZES[kafka_type]
        return lambda buffer, position: position + size
    return _walk_compact_sized if flexible else _LEGACY_SIZED[kafka_type]


def _nullable(walk: Walk) -> Walk:
    """A byte in front, 1 or -1, says whether the entity is there (KIP-893)."""

    def walk_nullable(buffer: Buffer, position: int) -> int:
        marker = buffer[position]
        if marker == 1:
            return walk(buffer, position + 1)
        if marker != 0xFF:
            raise Malformed(f"an entity that may be null begins with {marker}")
        return position + 1

    return walk_nullable


def _array(walk: Walk, flexible: bool) -> Walk:
    def walk_array(buffer: Buffer, position: int) -> int:
        if flexible:
            count, position = read_uvarint(buffer, position)
            count -= 1
        else:
            (count,) = INT32.unpack_from(buffer, position)
            position += 4
        # An element has at least one byte: without this, a false count would keep us busy for a long time.
        _require(count, buffer, position)
        for _ in range(count):
            position = walk(buffer, position)
        return position

    return walk_array


def _walk_compact_sized(buffer: Buffer, position: int) -> int:
    size, position = read_uvarint(buffer, position)
    return _behind(size - 1, buffer, position)


def _walk_string(buffer: Buffer, position: int) -> int:
    return _behind(INT16.unpack_from(buffer, position)[0], buffer, position + 2)


def _walk_bytes(buffer: Buffer, position: int) -> int:
    return _behind(INT32.unpack_from(buffer, position)[0], buffer, position + 4)


_LEGACY_SIZED = {"string": _walk_string, "bytes": _walk_bytes, "records": _walk_bytes}


def _walk_tags(buffer: Buffer, position: int, tagged: dict[int, Walk]) -> int:
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = _behind(size, buffer, position)
        if tag in tagged and tagged[tag](buffer, position) != end:
            raise Malformed(f"tagged field {tag} does not have the {size} bytes it claims")
        position = end
    return position


def _behind(size: int, buffer: Buffer, position: int) -> int:
    _require(size, buffer, position)
    return position + max(size, 0)


def _require(size: int, buffer: Buffer, position: int) -> None:
    """-1 is null; whether that is allowed is for the parser to say."""
    if size < -1 or size > len(buffer) - position:
        raise Malformed(f"{size} bytes or elements are claimed, {len(buffer) - position} bytes are left")
