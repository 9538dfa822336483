"""Every API but the two hot ones: kio's schemas, tolerant of versions.

A handler is written once for all versions of its API. It reads the newest names from the decoded request
(absent ones through ``getattr`` with a default) and returns plain dicts, lists, ints and strings;
:func:`encode` builds the version's own entity from them, leaves out fields that the version does not have and
fills in defaults. Times are milliseconds (int) in the dicts; kio's ``timedelta`` and ``datetime`` are used
only here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct
from typing import Any, get_type_hints
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.extents import element_type, tame, without_none
from tidelog.protocol.kio_import import (
    api_key_map,
    entity_reader,
    entity_writer,
    schema_name_map,
)
from tidelog.protocol.own_schemas import load_request_schema, load_response_schema
from tidelog.protocol.wire import ELEMENTS_MAX, Malformed

Fields = Mapping[str, Any]

API_VERSIONS_KEY = 18
ZERO_UUID = UUID(int=0)

_FRAME_START = Struct(">ii")


class ConstantResponse(dict[str, Any]):
    """Fields that are the same for every request: they are encoded once for each version."""

    __slots__ = ("bodies",)

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields)
        self.bodies: dict[tuple[int, int], bytes] = {}  # by API and version


class Sink:
    """kio's output; a list of pieces is faster than io.BytesIO and keeps io out of this package."""

    __slots__ = ("pieces", "write")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.write = self.pieces.append


@cache
def known_versions(api_key: int) -> tuple[int, int]:
    """Oldest and newest version kio has a schema for."""
    versions = schema_name_map[api_key_map[api_key]]
    return min(versions), max(versions)


def name_of(api_key: int) -> str:
    return api_key_map.get(api_key, f"unknown api {api_key}")


@cache
def is_flexible(api_key: int, version: int) -> bool:
    return bool(load_request_schema(api_key, version).__flexible__)


@cache
def _reader(api_key: int, version: int) -> Callable[[Any, int, int], tuple[Any, int]]:
    schema = load_request_schema(api_key, version)
    read = entity_reader(schema)
    return lambda frame, position, elements_max: read(*tame(schema, frame, position, elements_max))


@cache
def _writer(api_key: int, version: int) -> Callable[[Any, Any], None]:
    return entity_writer(load_response_schema(api_key, version))


@cache
def _response_builder(api_key: int, version: int) -> "Callable[[Fields], Any]":
    return entity_builder(load_response_schema(api_key, version))


_loaded: set[tuple[int, int]] = set()


def is_loaded(api_key: int, version: int) -> bool:
    """Whether requests of this version can be taken up without an import."""
    return (api_key, version) in _loaded


def load(api_key: int, version: int) -> None:
    """Import the schemas of one version: some milliseconds, and files are read. Safe in any thread."""
    try:
        _reader(api_key, version)
        _writer(api_key, version)
        _response_builder(api_key, version)
    finally:
        _loaded.add((api_key, version))  # Should it fail, the request will, too, and be answered.


def decode(
    api_key: int, version: int, frame: memoryview, position: int, elements_max: int = ELEMENTS_MAX
) -> Any:
    """The request as kio's entity for that version; :class:`Malformed` if the bytes are invalid."""
    try:
        request, _ = _reader(api_key, version)(frame.toreadonly(), position, elements_max)
    except Exception as error:  # kio raises many kinds of errors for bytes that do not fit its schema
        raise Malformed(f"{api_key_map[api_key]} v{version} cannot be parsed: {error}") from None
    return request


def encode(api_key: int, version: int, correlation_id: int, response: Fields) -> bytes:
    """The whole response frame."""
    body = _body(api_key, version, response)
    # The header of an ApiVersions response never has tagged fields: a client must be able to read it before
    # it knows the versions.
    header = b"\x00" if is_flexible(api_key, version) and api_key != API_VERSIONS_KEY else b""
    return _FRAME_START.pack(4 + len(header) + len(body), correlation_id) + header + body


def _body(api_key: int, version: int, response: Fields) -> bytes:
    known = response.bodies if isinstance(response, ConstantResponse) else None
    if known is not None and (api_key, version) in known:
        return known[api_key, version]
    sink = Sink()
    _writer(api_key, version)(sink, _response_builder(api_key, version)(response))
    body = b"".join(sink.pieces)
    if known is not None:
        known[api_key, version] = body
    return body


def has_more_elements(response: Fields, limit: int) -> bool:
    """Whether the arrays of a response, and those in their elements, have more than ``limit`` elements."""
    if isinstance(response, ConstantResponse):
        return False
    count = 0
    for value in response.values():
        for element in value if isinstance(value, list) else ():
            inner = element.values() if isinstance(element, dict) else ()
            count += 1 + sum(len(each) for each in inner if isinstance(each, list))
            if count > limit:
                return True
    return False


def entity_builder(entity: type[Any]) -> Callable[[Fields], Any]:
    """Creates kio's entity from plain values; see the module's docstring."""
    hints = get_type_hints(entity)
    plan = [
        (field.name, _default(field, hints[field.name]), _converter(field, hints[field.name]))
        for field in fields(entity)
    ]

    def build(values: Fields) -> Any:
        arguments = {}
        for name, default, convert in plan:
            if name in values:
                value = values[name]
                arguments[name] = value if convert is None else convert(value)
            else:
                arguments[name] = default
        return entity(**arguments)

    return build


def _converter(field: Field[Any], hint: Any) -> Callable[[Any], Any] | None:
    """The conversion of a plain value to kio's type for this field; None if none is needed."""
    kafka_type = field.metadata.get("kafka_type")
    element = element_type(hint)
    if element is not None:
        if hasattr(element, "__flexible__"):
            return _tuple_of(entity_builder(element))
        return _to_tuple
    bare = without_none(hint)
    if hasattr(bare, "__flexible__"):
        build = entity_builder(bare)
        return lambda value: None if value is None else build(value)
    if kafka_type == "datetime_i64" and bare is hint:
        return _to_moment
    return _PRIMITIVES.get(kafka_type) if isinstance(kafka_type, str) else None


def _to_tuple(items: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if items is None else tuple(items)


def _tuple_of(build: Callable[[Any], Any]) -> Callable[[Iterable[Any] | None], tuple[Any, ...] | None]:
    return lambda items: None if items is None else tuple([build(item) for item in items])


def _to_timedelta(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _to_datetime(milliseconds: int | None) -> datetime | None:
    if milliseconds is None or milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _to_moment(milliseconds: int) -> datetime:
    """For a field that cannot be null: -1 stands for no time."""
    return _1970 + timedelta(milliseconds=milliseconds)


_1970 = datetime.fromtimestamp(0, UTC)


def _to_uuid(value: UUID | None) -> UUID | None:
    return None if value == ZERO_UUID else value


_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "timedelta_i32": _to_timedelta,
    "timedelta_i64": _to_timedelta,
    "datetime_i64": _to_datetime,
    "uuid": _to_uuid,
}


def _default(field: Field[Any], hint: Any) -> Any:
    """Kafka's implicit default if the schema has none: zero, empty or null."""
    if field.default is not MISSING:
        return field.default
    if element_type(hint) is not None:
        return ()
    if hint is not without_none(hint):
        return None
    if hasattr(hint, "__flexible__"):
        return entity_builder(hint)({})
    kafka_type = str(field.metadata.get("kafka_type"))
    if kafka_type in _IMPLICIT:
        return _IMPLICIT[kafka_type]
    return 0


_IMPLICIT: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "uuid": None,
    "float64": 0.0,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": _1970,
    "error_code": ErrorCode.NONE,
}


def milliseconds(value: timedelta) -> int:
    """A duration from a decoded request."""
    return round(value.total_seconds() * 1000)
