"""Kafka's flexible encoding, field by field, for the values of group records."""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar
from uuid import UUID

from tidelog.protocol.wire import (
    INT8,
    INT32,
    INT64,
    Malformed,
    read_array_size,
    read_bytes,
    read_string,
    read_uvarint,
    write_array_size,
    write_string,
    write_uvarint,
)

T = TypeVar("T")

NO_TAGS = b"\x00"


class FieldReader:
    """Reads one field after another."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self._data = data
        self._position = position

    def int8(self) -> int:
        return self._fixed(INT8)

    def int32(self) -> int:
        return self._fixed(INT32)

    def int64(self) -> int:
        return self._fixed(INT64)

    def uuid(self) -> UUID:
        raw = bytes(self._data[self._position : self._position + 16])
        if len(raw) < 16:
            raise Malformed("a topic id reaches past the end")
        self._position += 16
        return UUID(bytes=raw)

    def nullable_string(self) -> str | None:
        value, self._position = read_string(self._data, self._position, True)
        return value

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise Malformed("a required string is null")
        return value

    def binary(self) -> bytes:
        value, self._position = read_bytes(self._data, self._position, True)
        return b"" if value is None else bytes(value)

    def array(self, element: Callable[[], T]) -> list[T]:
        size, self._position = read_array_size(self._data, self._position, True)
        return [element() for _ in range(size)]

    def tags(self, known: dict[int, Callable[["FieldReader"], None]]) -> None:
        """Read the tagged fields at the end of a struct. Tags of newer brokers are skipped."""
        count, position = read_uvarint(self._data, self._position)
        for _ in range(count):
            tag, position = read_uvarint(self._data, position)
            size, position = read_uvarint(self._data, position)
            if position + size > len(self._data):
                raise Malformed("a tagged field reaches past the end")
            if tag in known:
                known[tag](FieldReader(self._data[position : position + size]))
            position += size
        self._position = position

    def _fixed(self, layout: Struct) -> int:
        (value,) = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return int(value)


def string(value: str | None) -> bytes:
    return write_string(value, True)


def binary(value: bytes) -> bytes:
    return write_uvarint(len(value) + 1) + value


def array(items: Iterable[bytes]) -> bytes:
    pieces = list(items)
    return write_array_size(len(pieces), True) + b"".join(pieces)


def tagged(tag: int, value: bytes) -> bytes:
    """A struct's end with one tagged field."""
    return b"\x01" + write_uvarint(tag) + write_uvarint(len(value)) + value
