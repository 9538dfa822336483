"""Checks a request before kio parses it, for four things that kio's parser does not handle.

**False counts.** kio's parser is native code that allocates as many elements as a count claims before it
reads them; a count of two thousand million in a request of twenty bytes ends the whole process. So each
version's layout is walked first, from the same schema, and kio only gets requests whose elements are all
present.

**Many elements.** A hundred megabytes can hold fifty million of them, and every one costs a handler some
microseconds. A request with more than :data:`~tidelog.protocol.wire.ELEMENTS_MAX` is refused.

**Unlimited durations.** Kafka's are any 64-bit number of milliseconds, Python's are not. :func:`tame`
shortens them.

**Unknown tagged fields.** A newer client may add them to any version, and they mean nothing to us; kio
refuses the request for them. :func:`tame` removes them.

A walk raises :class:`Malformed`, or ``IndexError`` and ``struct.error`` at the end of the buffer.
"""

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from tidelog.config.kinds import LONG_MAX
from tidelog.protocol.wire import INT16, INT32, INT64, Buffer, Malformed, read_uvarint, write_uvarint

DURATION_MAX_MS = 1 << 52  # 142,000 years; kio's limit is above it


class Cut(NamedTuple):
    """A part that kio must not see, such as a section with unknown tagged fields, and its replacement."""

    start: int
    end: int  # exclusive
    instead: bytes


class Notes:
    """What is noted on the way through a request."""

    __slots__ = ("cuts", "elements_left")

    def __init__(self, elements_max: int = LONG_MAX) -> None:
        self.cuts: list[Cut] = []
        self.elements_left = elements_max


Walk = Callable[[Buffer, int, Notes], int]
"""Position in, position after the entity or value out; records unknown tagged fields on the way."""

_SIZES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "error_code"), 2),
    **dict.fromkeys(("int32", "uint32", "timedelta_i32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "timedelta_i64", "datetime_i64"), 8),
    "uuid": 16,
}


def tame(entity: Any, frame: Buffer, position: int, elements_max: int = LONG_MAX) -> tuple[Buffer, int]:
    """The request at ``position`` in a form that kio can read; the frame itself unless tagged fields must be
    removed.
    """
    notes = Notes(elements_max)
    walker(entity)(frame, position, notes)
    if not notes.cuts:
        return frame, position
    pieces = []
    for start, end, instead in notes.cuts:
        pieces += [bytes(frame[position:start]), instead]
        position = end
    return b"".join([*pieces, bytes(frame[position:])]), 0


@cache
def walker(entity: Any) -> Walk:
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

    def walk(buffer: Buffer, position: int, notes: Notes) -> int:
        for step in steps:
            position = step(buffer, position, notes)
        if flexible:
            position = _walk_tags(buffer, position, notes, tagged)
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
    """The element type of an array; None if it is not an array."""
    bare = without_none(hint)
    return get_args(bare)[0] if get_origin(bare) is tuple else None


def _step(field: Field[Any], hint: Any, flexible: bool) -> Walk:
    element = element_type(hint)
    if element is not None:
        may_be_null = without_none(hint) is not hint
        return _array(_value(field, without_none(element), flexible), flexible, may_be_null)
    bare = without_none(hint)
    value = _value(field, bare, flexible)
    return _nullable(value) if bare is not hint and hasattr(bare, "__flexible__") else value


def _value(field: Field[Any], kind: Any, flexible: bool) -> Walk:
    if hasattr(kind, "__flexible__"):
        return walker(kind)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "timedelta_i64":
        return _walk_duration
    if kafka_type in _SIZES:
        size = _SIZES[kafka_type]
        return lambda buffer, position, notes: position + size
    return _walk_compact_sized if flexible else _LEGACY_SIZED[kafka_type]


def _nullable(walk: Walk) -> Walk:
    """A leading byte, 1 or -1, says whether the entity is present (KIP-893)."""

    def walk_nullable(buffer: Buffer, position: int, notes: Notes) -> int:
        marker = buffer[position]
        if marker == 1:
            return walk(buffer, position + 1, notes)
        if marker != 0xFF:
            raise Malformed(f"an entity that may be null begins with {marker}")
        return position + 1

    return walk_nullable


def _array(walk: Walk, flexible: bool, may_be_null: bool) -> Walk:
    def walk_array(buffer: Buffer, position: int, notes: Notes) -> int:
        if flexible:
            count, position = read_uvarint(buffer, position)
            count -= 1
        else:
            (count,) = INT32.unpack_from(buffer, position)
            position += 4
        if count < 0 and not may_be_null:
            raise Malformed("an array is null that may not be")
        # An element has at least one byte: without this, a false count would take a long time.
        _require(count, buffer, position)
        notes.elements_left -= max(count, 0)
        if notes.elements_left < 0:
            raise Malformed("a request with too many elements")
        for _ in range(count):
            position = walk(buffer, position, notes)
        return position

    return walk_array


def _walk_duration(buffer: Buffer, position: int, notes: Notes) -> int:
    (milliseconds,) = INT64.unpack_from(buffer, position)
    if abs(milliseconds) > DURATION_MAX_MS:
        longest = DURATION_MAX_MS if milliseconds > 0 else -DURATION_MAX_MS
        notes.cuts.append(Cut(position, position + 8, INT64.pack(longest)))
    return position + 8


def _walk_compact_sized(buffer: Buffer, position: int, notes: Notes) -> int:
    size, position = read_uvarint(buffer, position)
    return _behind(size - 1, buffer, position)


def _walk_string(buffer: Buffer, position: int, notes: Notes) -> int:
    return _behind(INT16.unpack_from(buffer, position)[0], buffer, position + 2)


def _walk_bytes(buffer: Buffer, position: int, notes: Notes) -> int:
    return _behind(INT32.unpack_from(buffer, position)[0], buffer, position + 4)


_LEGACY_SIZED = {"string": _walk_string, "bytes": _walk_bytes, "records": _walk_bytes}


def _walk_tags(buffer: Buffer, position: int, notes: Notes, tagged: dict[int, Walk]) -> int:
    start = position
    count, position = read_uvarint(buffer, position)
    known = []
    for _ in range(count):
        field_start = position
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = _behind(size, buffer, position)
        if tag in tagged:
            # Known gap: unknown fields inside a known one stay, as removing them would change its size; kio
            # then refuses the request. No request served so far has such fields.
            inside = Notes(notes.elements_left)
            if tagged[tag](buffer, position, inside) != end:
                raise Malformed(f"tagged field {tag} does not have the {size} bytes it claims")
            notes.elements_left = inside.elements_left
            known.append(bytes(buffer[field_start:end]))
        position = end
    if len(known) < count:
        notes.cuts.append(Cut(start, position, write_uvarint(len(known)) + b"".join(known)))
    return position


def _behind(size: int, buffer: Buffer, position: int) -> int:
    _require(size, buffer, position)
    return position + max(size, 0)


def _require(size: int, buffer: Buffer, position: int) -> None:
    """-1 is null; the parser decides whether that is allowed."""
    if size < -1 or size > len(buffer) - position:
        raise Malformed(f"{size} bytes or elements are claimed, {len(buffer) - position} bytes are left")
