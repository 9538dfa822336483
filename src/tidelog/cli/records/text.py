"""Records as lines of text: how ``produce`` reads them and how ``consume`` writes them.

Two forms. Plain: the value as it is, the key before a separator if asked for. JSON: one object per line that
carries a record exactly, binary content and null included, so that ``consume --json | produce --json`` copies
a topic.
"""

import base64
import binascii
import json
from datetime import datetime
from typing import Any, NamedTuple

from tidelog.config.kinds import INT_MAX, LONG_MAX

NO_OFFSET = -1  # of a record that is not written yet
Header = tuple[str, bytes | None]

_INPUT_FIELDS = {"key", "key_base64", "value", "value_base64", "headers", "timestamp", "partition"}
# Written by consume and without meaning for produce.
_IGNORED_FIELDS = {"topic", "offset"}


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None  # None is a tombstone
    headers: list[Header]
    timestamp_ms: int | None
    partition: int | None
    offset: int = NO_OFFSET


class BadRecord(ValueError):
    """A line that is no record, and why."""


def parse_plain(line: bytes, key_separator: bytes | None) -> Record:
    """A line without its newline. With a separator, a line that lacks it has no key."""
    if key_separator is not None:
        key, found, value = line.partition(key_separator)
        if found:
            return Record(key, value, [], None, None)
    return Record(None, line, [], None, None)


def parse_json(line: bytes) -> Record:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadRecord(f"not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise BadRecord("not a JSON object")
    if unknown := fields.keys() - _INPUT_FIELDS - _IGNORED_FIELDS:
        allowed = ", ".join(sorted(_INPUT_FIELDS))
        raise BadRecord(f"unknown field '{min(unknown)}'; known fields: {allowed}")
    return Record(
        _content(fields, "key"),
        _content(fields, "value"),
        _headers(fields.get("headers")),
        _timestamp(fields.get("timestamp")),
        _partition(fields.get("partition")),
    )


def to_json(topic: str, record: Record) -> str:
    fields: dict[str, Any] = {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }
    fields |= _field("key", record.key)
    fields |= _field("value", record.value)
    if record.headers:
        fields["headers"] = [{"key": name} | _field("value", value) for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False)


def to_plain(record: Record, *, keys: bool, headers: bool, offsets: bool, separator: bytes) -> bytes:
    """The value, after what was asked for: partition:offset, headers, key. Null is written as ``null``."""
    parts = []
    if offsets:
        parts.append(b"%d:%d" % (record.partition or 0, record.offset))
    if headers:
        parts.append(b",".join(name.encode() + b"=" + _or_null(value) for name, value in record.headers))
    if keys:
        parts.append(_or_null(record.key))
    parts.append(_or_null(record.value))
    return separator.join(parts)


def parse_instant(text: str) -> int:
    """An ISO date or date and time as milliseconds since 1970; without a zone it is local time. Records are
    not older than that.
    """
    try:
        return max(round(datetime.fromisoformat(text).timestamp() * 1000), 0)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def offset_or_time(text: str) -> int:
    """What fits into the protocol; ValueError otherwise."""
    number = int(text)
    if abs(number) > LONG_MAX:
        raise ValueError("too large")
    return number


def _or_null(content: bytes | None) -> bytes:
    return b"null" if content is None else content


def _field(name: str, content: bytes | None) -> dict[str, str | None]:
    """Text under the field's name; what is no UTF-8 text under ``…_base64``."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def _content(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise BadRecord(f"{name}_base64 is not base64") from None
    content = fields.get(name)
    if content is None:
        return None
    # Anything but text stands for its JSON: {"value": {"id": 1}} is what most people mean by a JSON message.
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)).encode()


def _headers(headers: Any) -> list[Header]:
    """``{"name": "value"}``, or a list of key and value objects where names repeat or values are binary."""
    if headers is None:
        return []
    if isinstance(headers, dict):
        return [(name, _content(headers, name)) for name in headers]
    if isinstance(headers, list) and all(
        isinstance(h, dict) and isinstance(h.get("key"), str) for h in headers
    ):
        return [(header["key"], _content(header, "value")) for header in headers]
    raise BadRecord("headers must be an object, or a list of objects with key and value")


def _timestamp(timestamp: Any) -> int | None:
    if timestamp is None or (
        isinstance(timestamp, int) and not isinstance(timestamp, bool) and 0 <= timestamp <= LONG_MAX
    ):
        return timestamp
    try:
        return parse_instant(timestamp)
    except (TypeError, ValueError):
        raise BadRecord(
            f"timestamp {timestamp!r} is neither milliseconds since 1970 nor an ISO time"
        ) from None


def _partition(partition: Any) -> int | None:
    if partition is None or (
        isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition <= INT_MAX
    ):
        return partition
    raise BadRecord(f"partition {partition!r} is not a number from 0")
