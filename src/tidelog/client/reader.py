"""Decodes the fields of a response, in old and flexible encodings."""

import struct

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Reader:
    """Reads one field after another; truncated data raises ConnectionError."""

    __slots__ = ("data", "position")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        try:
            values = form.unpack_from(self.data, self.position)
        except struct.error:
            raise ConnectionError("the broker's response is truncated") from None
        self.position += form.size
        return values

    def int8(self) -> int:
        return self.take(_INT8)[0]

    def int16(self) -> int:
        return self.take(_INT16)[0]

    def int32(self) -> int:
        return self.take(_INT32)[0]

    def int64(self) -> int:
        return self.take(_INT64)[0]

    def flag(self) -> bool:
        return bool(self.int8())

    def string(self) -> str:
        """A null string reads as an empty one."""
        return bytes(self.span(self.int16())).decode(errors="replace")

    def numbers(self) -> tuple[int, ...]:
        count = max(self.int32(), 0)
        if 4 * count > len(self.data) - self.position:
            raise ConnectionError("the broker's response is truncated")
        return self.take(struct.Struct(f">{count}i"))

    def span(self, size: int) -> memoryview:
        start, self.position = self.position, self.position + max(size, 0)
        if self.position > len(self.data):
            raise ConnectionError("the broker's response is truncated")
        return self.data[start : self.position]

    # -- flexible versions ---------------------------------------------------------------

    def uvarint(self) -> int:
        try:
            value, self.position = _uvarint(self.data, self.position)
        except IndexError:
            raise ConnectionError("the broker's response is truncated") from None
        return value

    def compact_string(self) -> str:
        return bytes(self.span(self.uvarint() - 1)).decode(errors="replace")

    def compact_count(self) -> int:
        """The number of elements of an array."""
        return max(self.uvarint() - 1, 0)

    def compact_numbers(self) -> tuple[int, ...]:
        count = self.compact_count()
        if 4 * count > len(self.data) - self.position:
            raise ConnectionError("the broker's response is truncated")
        return self.take(struct.Struct(f">{count}i"))

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.span(self.uvarint())


def string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def compact_string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def behind_tags(body: memoryview) -> int:
    """Where the body of a response begins whose header ends in tags."""
    if len(body) and body[0] == 0:
        return 1
    reader = Reader(body)
    reader.skip_tags()
    return reader.position


def _uvarint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
