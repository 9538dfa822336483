"""The window of the message browser: filters, control records, aborted transactions."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.client.fetching import PartitionFetcher
from tidelog.client.messages import FetchedPartition
from tidelog.page.views.messages import FETCH_BYTES, SCAN_BYTES, Cursor, Query, matcher, rows_of, scan_back
from tidelog.page.views.payload import with_schema, without_schema
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


class Fetcher:
    """A partition of ``count`` records, one batch each; those that ``keeps`` refuses are gone."""

    def __init__(self, count: int, value: Callable[[int], bytes], keeps: Callable[[int], bool]) -> None:
        self._batches = {offset: batch(offset, value(offset)) for offset in range(count) if keeps(offset)}
        self._count = count
        self._position = 0
        self.read_bytes = 0

    def ask(self, offset: int) -> None:
        self._position = offset

    def take(self) -> FetchedPartition:
        found = bytearray()
        for offset in range(self._position, self._count):
            found += self._batches.get(offset, b"")
            if len(found) >= FETCH_BYTES:
                break
        self.read_bytes += len(found)
        return FetchedPartition(0, self._count, 0, [], -1, memoryview(bytes(found)))


def newest(fetcher: Fetcher, end: int, **query: Any) -> tuple[list[int], int]:
    wanted = QUERY._replace(begin="newest", **query)
    found, start = scan_back(cast("PartitionFetcher", fetcher), wanted, 0, end, without_schema)
    return [row["offset"] for row in found], start


def test_the_newest_that_match_are_found_however_far_back_they_are() -> None:
    fetcher = Fetcher(3000, lambda offset: b"needle" if offset in (5, 40) else b"hay", lambda _: True)
    assert newest(fetcher, 3000, match="needle") == ([5, 40], 0)
    assert newest(fetcher, 3000, match="needle", limit=1) == ([40], 40)
    assert newest(fetcher, 40, match="needle") == ([5], 0)  # Show older.


def test_what_compaction_removed_does_not_make_the_newest_fewer() -> None:
    fetcher = Fetcher(2000, lambda _: b"v", lambda offset: offset < 5 or offset % 500 == 0)
    assert newest(fetcher, 2000, limit=6) == ([2, 3, 4, 500, 1000, 1500], 2)
    assert newest(fetcher, 2, limit=6) == ([0, 1], 0)


def test_large_records_are_looked_at_one_by_one() -> None:
    """A window of them would be more than is read at once."""
    fetcher = Fetcher(8, lambda _: bytes(3 << 20), lambda _: True)
    found, start = newest(fetcher, 8, limit=3)
    assert (found[-1], found == list(range(start, 8))) == (7, True)
    assert fetcher.read_bytes < SCAN_BYTES


def test_nothing_is_empty() -> None:
    assert newest(Fetcher(0, lambda _: b"", lambda _: True), 0) == ([], 0)


def test_headers_are_cut() -> None:
    """Their names have no limit in the protocol."""
    headers = tuple((("\x01" * 1_000_000), b"v" * 1_000_000) for _ in range(3))
    data = bytes(encode_batch([Record(0, 0, b"k", b"v", headers)]))
    fetched = FetchedPartition(0, 1, 0, [], -1, memoryview(data))
    for whole, most in ((False, 10_000), (True, 200_000)):
        query = QUERY._replace(whole=whole)
        [row] = [row for row, _ in rows_of(fetched, 0, Cursor(), query, matcher("")) if row is not None]
        assert len(json.dumps(row)) < most
        assert row["headers"][0][0].endswith("…")
