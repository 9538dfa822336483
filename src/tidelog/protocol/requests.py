"""The client side of every API but the hot ones: requests out, responses in.

The counterpart of :mod:`tidelog.protocol.messages` for requests between brokers: plain values in, kio's
entities out, in the newest version unless another one is given, as both ends are brokers of one cluster.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct
from typing import Any

from tidelog.protocol import messages
from tidelog.protocol.extents import tame
from tidelog.protocol.kio_import import api_key_map, entity_reader, entity_writer
from tidelog.protocol.messages import API_VERSIONS_KEY, Fields, Sink, entity_builder, known_versions
from tidelog.protocol.own_schemas import load_request_schema, load_response_schema
from tidelog.protocol.wire import Malformed, skip_tags, write_string

_FRAME = Struct(">ihhi")  # size, api key, version, correlation id


def newest(api_key: int) -> int:
    return known_versions(api_key)[1]


@cache
def _request_builder(api_key: int, version: int) -> Callable[[Fields], Any]:
    return entity_builder(load_request_schema(api_key, version))


@cache
def _request_writer(api_key: int, version: int) -> Callable[[Any, Any], None]:
    return entity_writer(load_request_schema(api_key, version))


@cache
def _response_builder(api_key: int, version: int) -> Callable[[Fields], Any]:
    return entity_builder(load_response_schema(api_key, version))


@cache
def _response_reader(api_key: int, version: int) -> Callable[[Any, int], tuple[Any, int]]:
    schema = load_response_schema(api_key, version)
    read = entity_reader(schema)
    return lambda frame, position: read(*tame(schema, frame, position))


def load(api_key: int) -> None:
    """Import the schemas of the newest version: some milliseconds, and files are read. Safe in any thread."""
    _request_builder(api_key, newest(api_key))
    _request_writer(api_key, newest(api_key))
    _response_builder(api_key, newest(api_key))
    _response_reader(api_key, newest(api_key))
    messages.load(api_key, newest(api_key))


def request_of(api_key: int, body: Fields, version: int | None = None) -> Any:
    """The request as its handler gets it over the wire."""
    return _request_builder(api_key, newest(api_key) if version is None else version)(body)


def response_of(api_key: int, response: Fields, version: int | None = None) -> Any:
    """A handler's response as the sender gets it over the wire."""
    return _response_builder(api_key, newest(api_key) if version is None else version)(response)


def encode_request(api_key: int, correlation_id: int, client_id: str, body: Fields) -> bytes:
    """The whole request frame."""
    header = write_string(client_id, False) + (b"\x00" if is_flexible(api_key) else b"")
    content = header + encode_body(api_key, body)
    return _FRAME.pack(8 + len(content), api_key, newest(api_key), correlation_id) + content


def encode_body(api_key: int, body: Fields, version: int | None = None) -> bytes:
    """The request without its header. Fields that the version does not have are left out."""
    sink = Sink()
    chosen = newest(api_key) if version is None else version
    _request_writer(api_key, chosen)(sink, request_of(api_key, body, chosen))
    return b"".join(sink.pieces)


def decode_response(api_key: int, frame: memoryview) -> Any:
    """The response in a frame that begins with its correlation id; :class:`Malformed` if it is invalid."""
    with _sensible(api_key):
        position = skip_tags(frame, 4) if _flexible_response(api_key) else 4
    return decode_body(api_key, frame, position)


def decode_body(api_key: int, frame: memoryview, position: int = 0, version: int | None = None) -> Any:
    """The response whose body begins there."""
    with _sensible(api_key):
        chosen = newest(api_key) if version is None else version
        response, _ = _response_reader(api_key, chosen)(frame.toreadonly(), position)
    return response


@contextmanager
def _sensible(api_key: int) -> Iterator[None]:
    """kio raises many kinds of errors for bytes that do not fit its schema."""
    try:
        yield
    except Exception as error:
        raise Malformed(f"the answer to {api_key_map[api_key]} cannot be parsed: {error}") from None


@cache
def is_flexible(api_key: int, version: int | None = None) -> bool:
    """Whether the header of the request has tags."""
    chosen = newest(api_key) if version is None else version
    return bool(load_request_schema(api_key, chosen).__flexible__)


@cache
def _flexible_response(api_key: int) -> bool:
    return is_flexible(api_key) and api_key != API_VERSIONS_KEY
