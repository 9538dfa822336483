"""The throttle time in a response that is encoded already: how long the client is to send nothing.

In most responses it is the first field, and is written there. The others are decoded and encoded again, which
is rare: a client that is throttled gets few responses.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import cache
from typing import Any

from tidelog.protocol import fetch
from tidelog.protocol.kio_import import entity_reader, entity_writer
from tidelog.protocol.messages import API_VERSIONS_KEY, Sink, is_flexible
from tidelog.protocol.own_schemas import load_response_schema
from tidelog.protocol.wire import INT32, Buffer

_FIELD = "throttle_time"
_HEADER = 8  # size and correlation id


@cache
def _body_at(api_key: int, version: int) -> int:
    return _HEADER + (is_flexible(api_key, version) and api_key != API_VERSIONS_KEY)


@cache
def _is_first(api_key: int, version: int) -> bool:
    if api_key == fetch.API_KEY:
        return True
    return fields(load_response_schema(api_key, version))[0].name == _FIELD


@cache
def _has(api_key: int, version: int) -> bool:
    return any(field.name == _FIELD for field in fields(load_response_schema(api_key, version)))


def throttle_ms_of(frame: Buffer, api_key: int, version: int) -> int:
    """What the response says already; 0 where it cannot be the first field."""
    if not _is_first(api_key, version):
        return 0
    (throttle_ms,) = INT32.unpack_from(frame, _body_at(api_key, version))
    return int(throttle_ms)


def with_throttle_time(parts: Sequence[Any], api_key: int, version: int, throttle_ms: int) -> Sequence[Any]:
    """The parts of a response with this time. Responses without the field stay as they are."""
    if not parts:
        return parts
    first = parts[0]
    if _is_first(api_key, version):
        changed = bytearray(first)
        INT32.pack_into(changed, _body_at(api_key, version), throttle_ms)
        return [changed, *parts[1:]]
    if not _has(api_key, version):
        return parts
    at = _body_at(api_key, version)
    read, write = _coders(api_key, version)
    response, _ = read(memoryview(bytes(first)), at)
    sink = Sink()
    write(sink, replace(response, throttle_time=timedelta(milliseconds=throttle_ms)))
    body = b"".join(sink.pieces)
    return [INT32.pack(at - 4 + len(body)) + bytes(first[4:at]) + body, *parts[1:]]


@cache
def _coders(
    api_key: int, version: int
) -> tuple[Callable[[Any, int], tuple[Any, int]], Callable[[Any, Any], None]]:
    schema = load_response_schema(api_key, version)
    return entity_reader(schema), entity_writer(schema)
