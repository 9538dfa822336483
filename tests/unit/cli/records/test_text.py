"""Records as lines of text, both ways."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.records.text import BadRecord, Record, parse_json, parse_plain, to_json, to_plain

contents = st.none() | st.binary() | st.text().map(str.encode)
records = st.builds(
    Record,
    contents,
    contents,
    st.lists(st.tuples(st.text(), contents), max_size=3),
    st.none() | st.integers(0, 2**60),
    st.integers(0, 100),
    st.integers(0, 2**60),
)


@pytest.mark.slow
@given(records)
def test_json_carries_a_record_exactly(record: Record) -> None:
    line = to_json("orders", record)
    assert "\n" not in line
    assert parse_json(line.encode()) == record._replace(offset=-1)
    assert json.loads(line)["offset"] == record.offset


def test_plain_lines_split_at_the_first_separator_only() -> None:
    assert parse_plain(b"a:b:c", b":")[:2] == (b"a", b"b:c")
    assert parse_plain(b":x", b":")[:2] == (b"", b"x")
    assert parse_plain(b"no key", b":")[:2] == (None, b"no key")
    assert parse_plain(b"a:b", None)[:2] == (None, b"a:b")


def test_a_value_that_is_no_text_stands_for_its_json() -> None:
    assert parse_json(b'{"value": {"id": 1}}').value == b'{"id": 1}'
    assert parse_json(b'{"value": 7, "key": false}')[:2] == (b"false", b"7")
    assert parse_json(b'{"value": null}').value is None
    assert parse_json(b"{}").value is None


def test_headers_may_be_an_object() -> None:
    assert parse_json(b'{"headers": {"a": "1", "b": null}}').headers == [("a", b"1"), ("b", None)]


def test_a_timestamp_may_be_an_iso_time() -> None:
    assert parse_json(b'{"timestamp": "1970-01-02T00:00:00Z"}').timestamp_ms == 86_400_000


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"vlaue": 1}', "unknown field 'vlaue'"),
        (b'{"value_base64": "*"}', "value_base64 is not base64"),
        (b'{"value_base64": 5}', "value_base64 is not base64"),
        (b'{"headers": [1]}', "headers must be"),
        (b'{"headers": "a=b"}', "headers must be"),
        (b'{"timestamp": "yesterday"}', "timestamp 'yesterday'"),
        (b'{"timestamp": -1}', "timestamp -1"),
        (b'{"timestamp": true}', "timestamp True"),
        (b'{"timestamp": 9223372036854775808}', "timestamp 9223372036854775808"),
        (b'{"partition": 2147483648}', "partition 2147483648"),
        (b'{"partition": -1}', "partition -1"),
        (b'{"partition": "0"}', "partition '0'"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        parse_json(line)


def test_plain_output_puts_what_was_asked_for_before_the_value() -> None:
    record = Record(b"k", b"v", [("a", b"1"), ("b", None)], 5, 2, 17)
    nothing: dict[str, Any] = {"keys": False, "headers": False, "offsets": False, "separator": b"|"}
    assert to_plain(record, **nothing) == b"v"
    everything = nothing | {"keys": True, "headers": True, "offsets": True}
    assert to_plain(record, **everything) == b"2:17|a=1,b=null|k|v"
    assert to_plain(Record(None, None, [], 5, 0, 0), **nothing | {"keys": True}) == b"null|null"
