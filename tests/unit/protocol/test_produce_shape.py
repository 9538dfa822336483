"""A request of a known shape is read like any other: the shortcut finds what parsing finds, or nothing."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol import produce
from tidelog.protocol.produce import Shape
from tidelog.protocol.wire import Malformed, skip_tags, write_array_size, write_string, write_uvarint

VERSIONS = range(3, 14)
TOPIC = "orders"
TOPIC_ID = UUID(int=7)


def frame_of(
    version: int,
    records: bytes,
    *,
    correlation_id: int = 1,
    client: str = "c",
    topic: str = TOPIC,
    index: int = 3,
) -> memoryview:
    flexible = version >= 9
    body = struct.pack(">hhi", 0, version, correlation_id) + write_string(client, False)
    body += b"\x00" if flexible else b""
    body += write_string(None, flexible) + struct.pack(">hi", -1, 1500)
    body += write_array_size(1, flexible)
    body += TOPIC_ID.bytes if version >= 13 else write_string(topic, flexible)
    body += write_array_size(1, flexible) + struct.pack(">i", index)
    body += write_uvarint(len(records) + 1) if flexible else struct.pack(">i", len(records))
    return memoryview(bytearray(body + records + (b"\x00\x00\x00" if flexible else b"")))


def shape_of(version: int, frame: memoryview, records: bytes) -> Shape:
    view = frame[len(frame) - len(records) - (3 if version >= 9 else 0) :][: len(records)]
    assert bytes(view) == records
    return Shape(frame, view, version, -1, 30_000, TOPIC, 3)


@pytest.mark.parametrize("version", VERSIONS)
@given(first=st.binary(min_size=1, max_size=200), second=st.binary(min_size=1, max_size=20_000))
def test_the_next_request_gives_its_records(version: int, first: bytes, second: bytes) -> None:
    shape = shape_of(version, frame_of(version, first), first)
    following = frame_of(version, second, correlation_id=99)
    found = shape.records_of(following)
    assert found is not None
    assert bytes(found) == second
    position = 8 + 2 + 1
    parsed = produce.decode(following, skip_tags(following, position) if version >= 9 else position, version)
    assert parsed.topics[0][1][0][1] == found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("change", [{"client": "d"}, {"client": "cc"}, {"index": 4}, {"topic": "bills!"}])
def test_another_client_topic_or_partition_is_another_shape(version: int, change: dict[str, str]) -> None:
    if version >= 13 and "topic" in change:
        return  # Topics go by id there.
    shape = shape_of(version, frame_of(version, b"abc"), b"abc")
    assert shape.records_of(frame_of(version, b"abc", **change)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_cut_off_or_has_more_behind_it_is_left_to_the_parser(version: int) -> None:
    frame = frame_of(version, b"abcdef")
    shape = shape_of(version, frame, b"abcdef")
    for end in range(8, len(frame)):
        assert shape.records_of(frame[:end]) is None
    assert shape.records_of(memoryview(bytes(frame) + b"\x00")) is None


@pytest.mark.parametrize("version", [9, 13])
def test_tagged_fields_behind_the_records_do_not_fit(version: int) -> None:
    plain = frame_of(version, b"abc")
    tagged = memoryview(bytearray(bytes(plain[:-3]) + b"\x01\x07\x00" + b"\x00\x00"))
    assert not Shape(tagged, tagged[-8:-5], version, -1, 30_000, TOPIC, 3).fits(tagged)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    records=st.binary(min_size=1, max_size=300),
    place=st.integers(0, 1 << 16),
    change=st.integers(1, 255),
)
def test_a_frame_of_the_same_size_is_compared_as_a_whole(
    version: int, records: bytes, place: int, change: int
) -> None:
    shape = shape_of(version, frame_of(version, records), records)
    for correlation_id in range(4):  # The shape learns the size from those before the last.
        found = shape.records_of(frame_of(version, records, correlation_id=correlation_id))
        assert found is not None
        assert bytes(found) == records
    frame = frame_of(version, records)
    frame[8 + place % (len(frame) - 8)] ^= change
    fresh = shape_of(version, frame_of(version, records), records)
    assert found_in(shape, frame) == found_in(fresh, frame)


def found_in(shape: Shape, frame: memoryview) -> bytes | str | None:
    try:
        found = shape.records_of(frame)
    except Malformed as error:
        return error.message
    return None if found is None else bytes(found)
