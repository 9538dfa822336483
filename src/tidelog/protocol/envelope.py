"""Envelope, version 0, by hand: a client's unchanged request, forwarded to the active controller and back.

The tagged field of the response is ours: the end of the controller's metadata log when it responded, so that
the forwarding broker can wait until its own metadata has reached it.
"""

from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.protocol.wire import (
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_bytes,
    read_uvarint,
    skip_tags,
    write_string,
    write_uvarint,
)

API_KEY = 58
VERSION = 0

_OFFSET_TAG = 100
_OFFSET_MARK = bytes((1, _OFFSET_TAG, 8))


class EnvelopeResponse(NamedTuple):
    error: ErrorCode
    data: memoryview | None  # header and body of the client's response
    metadata_offset: int  # -1 if unknown


def encode_request(correlation_id: int, client_id: str, data: memoryview, host: bytes) -> bytes:
    """The whole request frame around ``data``, the header and body of the client's request."""
    content = b"".join(
        (
            INT16.pack(API_KEY),
            INT16.pack(VERSION),
            INT32.pack(correlation_id),
            write_string(client_id, False),
            b"\x00",
            write_uvarint(len(data) + 1),
            data,
            b"\x00",  # no principal
            write_uvarint(len(host) + 1),
            host,
            b"\x00",
        )
    )
    return INT32.pack(len(content)) + content


def decode_request(frame: memoryview, position: int) -> memoryview:
    """The client's request inside."""
    try:
        data, position = read_bytes(frame, position, True)
        _, position = read_bytes(frame, position, True)
        _, position = read_bytes(frame, position, True)
        skip_tags(frame, position)
    except (IndexError, STRUCT_ERROR):
        raise Malformed("the envelope ends too early") from None
    if data is None:
        raise Malformed("an empty envelope")
    return data


def encode_response(
    correlation_id: int, error: ErrorCode, data: bytes | memoryview | None, metadata_offset: int
) -> bytes:
    content = b"".join(
        (
            INT32.pack(correlation_id),
            b"\x00",
            b"\x00" if data is None else write_uvarint(len(data) + 1) + data,
            INT16.pack(error),
            _OFFSET_MARK,
            INT64.pack(metadata_offset),
        )
    )
    return INT32.pack(len(content)) + content


def decode_response(frame: memoryview) -> EnvelopeResponse:
    """From a frame that begins with its correlation id."""
    try:
        data, position = read_bytes(frame, skip_tags(frame, 4), True)
        (code,) = INT16.unpack_from(frame, position)
        return EnvelopeResponse(ErrorCode(code), data, _metadata_offset(frame, position + 2))
    except (IndexError, ValueError, STRUCT_ERROR):
        raise Malformed("the answer to an envelope cannot be parsed") from None


def _metadata_offset(frame: memoryview, position: int) -> int:
    count, position = read_uvarint(frame, position)
    offset = -1
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag == _OFFSET_TAG:
            (offset,) = INT64.unpack_from(frame, position)
        position += size
    return offset
