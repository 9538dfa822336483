"""A Kafka client reduced to the wire: any request at any version, or any bytes at all, over one socket.

The real clients never send most of what a broker must answer well: old versions, sessions that went wrong,
frames that are no frames. Requests are written with plain keyword arguments, nested ones as dicts, under
kio's field names:

    wire.call("metadata", 12, topics=[{"name": "orders"}])

A field the version does not have is left out and a missing one gets the schema's default, or zero, or
nothing: so one request can be sent at every version an API has.
"""

import io
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import uuid_zero

API_KEYS = {name: key for key, name in api_key_map.items()}
ZEROS: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (bytes, b""),
    (timedelta, timedelta(0)),
)


class ConnectionEnded(ConnectionError):
    """The broker closed the connection."""


class Wire:
    """One connection. Requests may be sent ahead of their answers; answers come back in order."""

    def __init__(self, bootstrap: str, *, client_id: str | None = "wire", timeout_s: float = 30.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client_id = client_id
        self.of_node = self  # for requests that only nodes may send; a test may put another one here
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_correlation_id = 1

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **values: Any) -> Any:
        """Send one request and return its answer, parsed to the last byte."""
        correlation_id = self.send(api, version, **values)
        return self.receive(api, version, correlation_id)

    def send(self, api: str, version: int, **values: Any) -> int:
        """Send without waiting; returns the correlation id."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self.send_frame(request_bytes(api, version, correlation_id, self.client_id, values))
        return correlation_id

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        """The next answer, which must be the one to that request."""
        return parse_response(self.receive_frame(), api, version, correlation_id)

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionEnded from error

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(length)

    def wait_until_closed(self) -> bytes:
        """Read until the broker closes; whatever still came is returned."""
        received = b""
        try:
            while data := self.socket.recv(65536):
                received += data
        except ConnectionResetError:
            pass
        return received

    def versions(self) -> dict[str, range]:
        """Every API the broker says it serves, with its versions."""
        answer = self.call("api_versions", 0)
        assert answer.error_code == 0, answer
        return {
            api_key_map[api.api_key]: range(api.min_version, api.max_version + 1)
            for api in answer.api_keys
            if api.api_key in api_key_map
        }

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                data = self.socket.recv(size - len(received))
            except ConnectionResetError:
                data = b""
            if not data:
                raise ConnectionEnded(f"closed after {len(received)} of {size} bytes")
            received += data
        return bytes(received)


def request_bytes(
    api: str, version: int, correlation_id: int, client_id: str | None, values: Mapping[str, Any]
) -> bytes:
    """Header and body of a request, without the length in front."""
    schema = load_request_schema(API_KEYS[api], version)
    header_schema = schema.__header_schema__
    out = io.BytesIO()
    header = build(
        header_schema,
        {
            "request_api_key": API_KEYS[api],
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        },
    )
    entity_writer(header_schema)(out, header)
    entity_writer(schema)(out, build(schema, values))
    return out.getvalue()


def parse_response(frame: bytes, api: str, version: int, correlation_id: int) -> Any:
    schema = load_response_schema(API_KEYS[api], version)
    header, header_size = entity_reader(schema.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation_id, (header, correlation_id)
    answer, answer_size = entity_reader(schema)(frame, header_size)
    assert header_size + answer_size == len(frame), f"{len(frame) - header_size - answer_size} bytes too many"
    return answer


def build(schema: type, values: Mapping[str, Any]) -> Any:
    """An entity of the schema from plain values, see the module's docstring."""
    hints = _hints(schema)
    filled = {}
    for field in fields(schema):
        if field.name in values:
            filled[field.name] = _convert(hints[field.name], values[field.name])
        elif field.default is MISSING:
            filled[field.name] = _zero(hints[field.name])
    return schema(**filled)


@cache
def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema)


def _convert(hint: Any, value: Any) -> Any:
    kind, _ = _without_none(hint)
    if value is None:
        return None
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        assert isinstance(value, Iterable)
        return tuple(_convert(item, each) for each in value)
    if isinstance(value, Mapping):
        return build(kind, value)
    if issubclass(kind, timedelta) and not isinstance(value, timedelta):
        return timedelta(milliseconds=value)
    return value


def _zero(hint: Any) -> Any:
    kind, nullable = _without_none(hint)
    if nullable:
        return None
    if get_origin(kind) is tuple:
        return ()
    if hasattr(kind, "__header_schema__"):
        return build(kind, {})
    for base, zero in ZEROS:
        if issubclass(kind, base):
            return zero
    assert kind is type(uuid_zero), kind
    return uuid_zero


def _without_none(hint: Any) -> tuple[Any, bool]:
    if isinstance(hint, UnionType):
        (kind,) = (each for each in get_args(hint) if each is not NoneType)
        return kind, True
    return hint, False
