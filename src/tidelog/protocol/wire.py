"""Kafka's primitive encodings, for the hand-written paths (headers, Produce, Fetch).

Readers take a buffer and a position and return the value and the next position. They check only lengths; a
length that points outside the buffer is :class:`Malformed`.
"""

from struct import Struct
from struct import error as struct_error

from tidelog.errors import InvalidRequest

Buffer = bytes | bytearray | memoryview

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

STRUCT_ERROR = struct_error


ELEMENTS_MAX = 100_000  # in all arrays of a client request together: each costs some microseconds
STRING_BYTES_MAX = 0x7FFF  # of a client request
TAGS_MAX = 16  # in one section that is skipped; a tag of two bytes costs as much as an element


class Malformed(InvalidRequest):
    """A request that cannot be parsed; the connection is closed, since the start of the next request is
    unknown.
    """


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    shift = 7
    while True:
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
        if shift > 28:
            raise Malformed("a varint longer than five bytes")


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def skip_tags(buffer: Buffer, position: int) -> int:
    """Position after a tagged-field section whose fields are ignored."""
    count, position = read_uvarint(buffer, position)
    if count > TAGS_MAX:
        # A request of 100 MB has room for fifty million: they would hold the event loop for half a minute.
        raise Malformed(f"a section of {count} tagged fields; allowed are {TAGS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    if position > len(buffer):
        raise Malformed("a tagged field reaches past the end of the request")
    return position


def read_string(buffer: Buffer, position: int, flexible: bool) -> tuple[str | None, int]:
    """A (nullable) string in either form."""
    if flexible:
        size, position = read_uvarint(buffer, position)
        size -= 1
    else:
        (size,) = INT16.unpack_from(buffer, position)
        position += 2
    if size < 0:
        return None, position
    end = position + size
    if end > len(buffer):
        raise Malformed("a string reaches past the end of the request")
    try:
        return str(buffer[position:end], "utf-8"), end
    except UnicodeDecodeError:
        raise Malformed("a string is not UTF-8") from None


def read_short_string(buffer: Buffer, position: int, flexible: bool) -> tuple[str | None, int]:
    """A string of a request: no longer than in Kafka, whose older form has no room for more. A name of 90 MB
    holds the event loop for a quarter of a second.
    """
    if flexible and read_uvarint(buffer, position)[0] - 1 > STRING_BYTES_MAX:
        raise Malformed(f"a string of more than {STRING_BYTES_MAX} bytes")
    return read_string(buffer, position, flexible)


def read_array_size(buffer: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """Number of elements; a null array counts as empty. Bounded by the remaining bytes."""
    if flexible:
        size, position = read_uvarint(buffer, position)
        size -= 1
    else:
        (size,) = INT32.unpack_from(buffer, position)
        position += 4
    if size > len(buffer) - position:
        raise Malformed(f"an array of {size} elements in {len(buffer) - position} bytes")
    return max(size, 0), position


def read_bytes(buffer: memoryview, position: int, flexible: bool) -> tuple[memoryview | None, int]:
    """A (nullable) byte string, as a view: nothing is copied."""
    if flexible:
        size, position = read_uvarint(buffer, position)
        size -= 1
    else:
        (size,) = INT32.unpack_from(buffer, position)
        position += 4
    if size < 0:
        return None, position
    end = position + size
    if end > len(buffer):
        raise Malformed("a byte string reaches past the end of the request")
    return buffer[position:end], end


def write_string(value: str | None, flexible: bool) -> bytes:
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    data = value.encode()
    if flexible:
        return write_uvarint(len(data) + 1) + data
    return INT16.pack(len(data)) + data


def write_array_size(count: int, flexible: bool) -> bytes:
    return write_uvarint(count + 1) if flexible else INT32.pack(count)
