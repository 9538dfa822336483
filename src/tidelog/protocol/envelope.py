"""Envelope, version 0, by hand: a client's unchanged request, forwarded to the active controller and back.

The principal is written as by Kafka's DefaultKafkaPrincipalBuilder. The host is the client's address with its
port, as text. The tagged field of the response is ours: the end of the controller's metadata log when it
responded, so that the forwarding broker can wait until its own metadata has reached it.
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
    read_string,
    read_uvarint,
    skip_tags,
    write_string,
    write_uvarint,
)

API_KEY = 58
VERSION = 0

_PRINCIPAL_VERSION = INT16.pack(0)
_OFFSET_TAG = 100
_OFFSET_MARK = bytes((1, _OFFSET_TAG, 8))


class EnvelopeResponse(NamedTuple):
    error: ErrorCode
    data: memoryview | None  # header and body of the client's response
    metadata_offset: int  # -1 if unknown


class EnvelopeRequest(NamedTuple):
    data: memoryview  # header and body of the client's request
    principal: tuple[str, str] | None  # kind and name; None: from a node of an older version
    host: str


def encode_request(
    correlation_id: int, client_id: str, data: memoryview, principal: tuple[str, str], host: str
) -> bytes:
    """The whole request frame around ``data``, the header and body of the client's request."""
    who = _encode_principal(principal)
    address = host.encode()
    content = b"".join(
        (
            INT16.pack(API_KEY),
            INT16.pack(VERSION),
            INT32.pack(correlation_id),
            write_string(client_id, False),
            b"\x00",
            write_uvarint(len(data) + 1),
            data,
            write_uvarint(len(who) + 1),
            who,
            write_uvarint(len(address) + 1),
            address,
            b"\x00",
        )
    )
    return INT32.pack(len(content)) + content


def _encode_principal(principal: tuple[str, str]) -> bytes:
    kind, name = principal
    token_authenticated = b"\x00"
    return b"".join(
        (_PRINCIPAL_VERSION, write_string(kind, True), write_string(name, True), token_authenticated, b"\x00")
    )


def decode_request(frame: memoryview, position: int) -> EnvelopeRequest:
    """The client's request inside."""
    try:
        data, position = read_bytes(frame, position, True)
        who, position = read_bytes(frame, position, True)
        host, position = read_bytes(frame, position, True)
        skip_tags(frame, position)
        principal = None if not who else _decode_principal(who)
    except (IndexError, STRUCT_ERROR):
        raise Malformed("the envelope ends too early") from None
    if data is None:
        raise Malformed("an empty envelope")
    return EnvelopeRequest(data, principal, str(host or b"", "utf-8", "replace"))


def _decode_principal(data: memoryview) -> tuple[str, str]:
    if bytes(data[:2]) != _PRINCIPAL_VERSION:
        raise Malformed("the principal in an envelope has an unknown version")
    kind, position = read_string(data, 2, True)
    name, _ = read_string(data, position, True)
    if kind is None or name is None:
        raise Malformed("the principal in an envelope has no name")
    return kind, name


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
