"""The window of the message browser: filters, control records, aborted transactions."""

from typing import Any

import pytest

from tidelog.client.messages import FetchedPartition
from tidelog.page.views.messages import Cursor, Query, matcher, rows_of
from tidelog.page.views.payload import with_schema
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch

QUERY = Query("orders", 0, "oldest")


def batch(offset: int, *values: bytes, producer: int = -1, marker: ControlType | None = None) -> bytes:
    records = [
        Record(offset + index, 1000, b"k" if marker is None else control_key(marker), value)
        for index, value in enumerate(values)
    ]
    return bytes(
        encode_batch(
            records,
            producer_id=producer,
            producer_epoch=0,
            transactional=producer >= 0,
            control=marker is not None,
        )
    )


def rows(
    data: bytes, *, aborted: list[tuple[int, int]] | None = None, start: int = 0, **query: Any
) -> list[Any]:
    cursor = Cursor()
    cursor.told(aborted or [])
    fetched = FetchedPartition(0, 100, 0, aborted or [], -1, memoryview(data))
    wanted = QUERY._replace(**query)
    found = rows_of(fetched, start, cursor, wanted, matcher(wanted.match))
    return [(row["offset"], row["kind"], row["value"]["text"]) for row, _ in found if row is not None]


def test_a_batch_that_begins_before_the_window() -> None:
    assert rows(batch(0, b"a", b"b", b"c"), start=1) == [(1, "record", "b"), (2, "record", "c")]


def test_aborted_and_control_records_are_shown_on_demand() -> None:
    data = (
        batch(0, b"gone", producer=7)
        + batch(1, b"kept", producer=8)
        + batch(2, b"", producer=7, marker=ControlType.ABORT)
        + batch(3, b"later", producer=7)
        + batch(4, b"", producer=7, marker=ControlType.COMMIT)
    )
    aborted = [(7, 0)]
    assert rows(data, aborted=aborted) == [(1, "record", "kept"), (3, "record", "later")]
    everything = rows(data, aborted=aborted, hidden=True)
    assert [(offset, kind) for offset, kind, _ in everything] == [
        (0, "aborted"), (1, "record"), (2, "control"), (3, "record"), (4, "control"),
    ]  # fmt: skip


def test_a_damaged_batch_is_named_and_passed_over() -> None:
    damaged = bytearray(batch(0, b"a"))
    damaged[-1] ^= 0xFF
    found = rows(bytes(damaged) + batch(1, b"b"))
    assert [(offset, kind) for offset, kind, _ in found] == [(0, "damaged"), (1, "record")]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), ("coffee", True), ("tea", False), ("key:42", True), ("key:43", False),
        ("customer.id=7", True), ("customer.id=8", False), ("customer.name=Ada", True), ("nothing=1", False),
    ],
)  # fmt: skip
def test_filters(text: str, matches: bool) -> None:
    record = Record(0, 0, b"42", b'{"customer": {"id": 7, "name": "Ada"}, "drink": "coffee"}')
    assert matcher(text)(record) is matches


def test_a_field_of_what_is_no_json() -> None:
    assert not matcher("a=1")(Record(0, 0, None, b"a=1 is text"))
    assert not matcher("a=1")(Record(0, 0, None, None))


def test_filters_look_into_values_with_a_schema() -> None:
    def plain(data: bytes | None) -> tuple[str, bytes] | None:
        return ("avro", b'{"customer": {"id": 7}}') if data == b"\x00framed" else None

    record = Record(0, 0, None, b"\x00framed", ())
    assert matcher("customer.id=7", plain)(record)
    assert matcher('"id": 7', plain)(record)
    assert not matcher("customer.id=7")(record)
    shown = with_schema(record.value, plain)
    assert (shown["form"], shown["text"], shown["size"]) == ("avro", '{"customer": {"id": 7}}', 7)
