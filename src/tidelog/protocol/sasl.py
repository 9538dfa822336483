"""SaslHandshake (versions 0 and 1) and SaslAuthenticate (versions 0 to 2), both ends, by hand.

They come before anything is known of the other end, and nodes send them whenever they connect. So nothing has
to be imported for them, and a length is checked before anything is cut out.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.protocol.wire import (
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_uvarint,
    skip_tags,
    write_uvarint,
)

HANDSHAKE_KEY = 17
AUTHENTICATE_KEY = 36
HANDSHAKE_VERSIONS = 0, 1
AUTHENTICATE_VERSIONS = 0, 2
FLEXIBLE_FROM = 2  # version of SaslAuthenticate

_FRAME = Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
_RESPONSE = Struct(">ii")  # size, correlation id


class Authenticated(NamedTuple):
    """The response to SaslAuthenticate."""

    error: ErrorCode
    reason: str
    token: bytes
    session_lifetime_ms: int = 0  # 0: as long as the connection


# --- the server's side --------------------------------------------------------------------------------------


def decode_handshake(frame: memoryview, position: int) -> str:
    """The mechanism. ``position``: of the request's body."""
    try:
        (length,) = INT16.unpack_from(frame, position)
    except STRUCT_ERROR:
        raise Malformed("SaslHandshake ends too early") from None
    end = position + 2 + length
    if length < 0 or end != len(frame):
        raise Malformed(f"SaslHandshake with a mechanism of {length} bytes")
    return str(frame[position + 2 : end], "utf-8", "replace")


def encode_handshake_response(correlation_id: int, error: ErrorCode, mechanisms: Sequence[str]) -> bytes:
    body = INT16.pack(error) + INT32.pack(len(mechanisms)) + b"".join(map(_string, mechanisms))
    return _RESPONSE.pack(4 + len(body), correlation_id) + body


def decode_authenticate(frame: memoryview, position: int, version: int) -> bytes:
    """The client's token."""
    try:
        if version >= FLEXIBLE_FROM:
            length, position = read_uvarint(frame, position)
            length -= 1
        else:
            (length,) = INT32.unpack_from(frame, position)
            position += 4
        end = position + length
        if length < 0 or end > len(frame):
            raise Malformed(f"SaslAuthenticate with a token of {length} bytes")
        if (skip_tags(frame, end) if version >= FLEXIBLE_FROM else end) != len(frame):
            raise Malformed("SaslAuthenticate is longer than its token")
    except (STRUCT_ERROR, IndexError):
        raise Malformed("SaslAuthenticate ends too early") from None
    return bytes(frame[position:end])


def encode_authenticate_response(correlation_id: int, version: int, response: Authenticated) -> bytes:
    reason = response.reason.encode()
    told = reason if response.error else None
    if version >= FLEXIBLE_FROM:
        body = b"\x00" + INT16.pack(response.error) + _compact(told) + _compact(response.token)
        body += INT64.pack(response.session_lifetime_ms) + b"\x00"
    else:
        text = INT16.pack(-1) if told is None else INT16.pack(len(told)) + told
        body = INT16.pack(response.error) + text + INT32.pack(len(response.token)) + response.token
        if version >= 1:
            body += INT64.pack(response.session_lifetime_ms)
    return _RESPONSE.pack(4 + len(body), correlation_id) + body


# --- the client's side, in versions 1 -----------------------------------------------------------------------


def encode_handshake(correlation_id: int, client_id: str, mechanism: str) -> bytes:
    return _request(HANDSHAKE_KEY, correlation_id, client_id, _string(mechanism))


def encode_authenticate(correlation_id: int, client_id: str, token: bytes) -> bytes:
    return _request(AUTHENTICATE_KEY, correlation_id, client_id, INT32.pack(len(token)) + token)


def decode_handshake_response(frame: memoryview) -> ErrorCode:
    """``frame`` begins with its correlation id."""
    try:
        return ErrorCode(INT16.unpack_from(frame, 4)[0])
    except (STRUCT_ERROR, ValueError):
        raise Malformed("an invalid response to SaslHandshake") from None


def decode_authenticate_response(frame: memoryview) -> Authenticated:
    try:
        error = ErrorCode(INT16.unpack_from(frame, 4)[0])
        (length,) = INT16.unpack_from(frame, 6)
        position = 8 + max(length, 0)
        reason = str(frame[8:position], "utf-8", "replace")
        (size,) = INT32.unpack_from(frame, position)
        token = bytes(frame[position + 4 : position + 4 + max(size, 0)])
        (lifetime_ms,) = INT64.unpack_from(frame, position + 4 + max(size, 0))
    except (STRUCT_ERROR, ValueError):
        raise Malformed("an invalid response to SaslAuthenticate") from None
    return Authenticated(error, reason, token, lifetime_ms)


def _request(api_key: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    name = client_id.encode()
    size = _FRAME.size - 4 + len(name) + len(body)
    return _FRAME.pack(size, api_key, 1, correlation_id, len(name)) + name + body


def _string(text: str) -> bytes:
    data = text.encode()
    return INT16.pack(len(data)) + data


def _compact(data: bytes | None) -> bytes:
    """A compact string or compact bytes; None is null."""
    if data is None:
        return b"\x00"
    return write_uvarint(len(data) + 1) + data
