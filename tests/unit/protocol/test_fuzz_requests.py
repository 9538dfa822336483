"""Whatever bytes arrive, decoding ends with a request or with Malformed, and soon."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.index import api_key_map

from tidelog.errors import TidelogError
from tidelog.protocol import fetch, messages, produce
from tidelog.protocol.extents import Notes, walker
from tidelog.protocol.wire import STRUCT_ERROR, Malformed
from unit.protocol.sample_requests import PLAIN_REQUESTS, PLAIN_VERSIONS, request_body

ALL_VERSIONS = [
    *[(produce.API_KEY, version) for version in range(produce.VERSIONS[0], produce.VERSIONS[1] + 1)],
    *[(fetch.API_KEY, version) for version in range(fetch.VERSIONS[0], fetch.VERSIONS[1] + 1)],
    *PLAIN_VERSIONS,
]
every_plain = pytest.mark.parametrize(("api_key", "version"), PLAIN_VERSIONS)
HUGE = (
    b"\xff\xff\xff\xff\x07",  # as a varint: 2147483647
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\x80\x00",
)


def decode(api_key: int, version: int, data: bytes) -> Any:
    frame = memoryview(bytearray(data))
    if api_key == produce.API_KEY:
        return produce.decode(frame, 0, version)
    if api_key == fetch.API_KEY:
        return fetch.decode(frame, 0, version)
    return messages.decode(api_key, version, frame, 0)


def fits(api_key: int, version: int, data: bytes) -> bool:
    """Whether the request may be shown to kio. Asked alone, so that a defect fails a test and does not end
    the process that runs it.
    """
    try:
        walker(load_request_schema(api_key, version))(data, 0, Notes())
    except (Malformed, IndexError, STRUCT_ERROR):
        return False
    return True


@settings(max_examples=500)
@given(api=st.sampled_from(ALL_VERSIONS), data=st.binary(max_size=120))
@pytest.mark.slow
def test_random_bytes(api: tuple[int, int], data: bytes) -> None:
    try:
        decode(*api, data)
    except TidelogError as error:
        assert isinstance(error, Malformed)


@settings(max_examples=500)
@given(api=st.sampled_from(PLAIN_VERSIONS), data=st.data())
@pytest.mark.slow
def test_changed_bytes(api: tuple[int, int], data: st.DataObject) -> None:
    broken = bytearray(request_body(*api, PLAIN_REQUESTS[api[0]]))
    for _ in range(data.draw(st.integers(1, 4))):
        if broken:
            at = data.draw(st.integers(0, len(broken) - 1))
            replacement = data.draw(st.sampled_from([*HUGE, b"", b"\x00", b"\x01", b"\xff"]))
            broken[at : at + data.draw(st.integers(0, 5))] = replacement
    try:
        decode(*api, bytes(broken))
    except TidelogError as error:
        assert isinstance(error, Malformed)


@every_plain
def test_kio_never_sees_a_count_larger_than_the_request(api_key: int, version: int) -> None:
    """Its parser makes room for what a count claims before it looks, and ends the process when it cannot."""
    data = request_body(api_key, version, PLAIN_REQUESTS[api_key])
    for at in range(len(data)):
        for huge in HUGE:
            broken = data[:at] + huge + data[at + len(huge) :]
            if fits(api_key, version, broken):
                continue  # the bytes stand where numbers or text do
            with pytest.raises(Malformed):
                decode(api_key, version, broken)


@pytest.mark.parametrize(
    ("api_key", "version", "data"),
    [
        (3, 0, b"\x7f\xff\xff\xff"),
        (3, 1, b"\xff\xff\xff\xfe"),  # only -1 is null
        (20, 1, b"\x00\x00\x00\x01" + b"\xff\xfe" + bytes(9)),
        (3, 12, b"\xff\xff\xff\xff\x07"),
        (3, 12, b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x07"),
        (2, 1, b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\x7f\xff\xff\xff"),
        (20, 1, b"\x40\x00\x00\x00" + b"\x00\x00" * 10),
        (35, 2, b"\x02\x02a" + b"\xff\xff\xff\xff\x07"),
        (60, 0, b"\x00" + b"\xff\xff\xff\xff\x07"),
        (75, 0, b"\x01\x00\x00\x00\x01\x01\xff\xff\xff\xff\x07"),
    ],
)
def test_false_counts_and_lengths(api_key: int, version: int, data: bytes) -> None:
    assert not fits(api_key, version, data)
    with pytest.raises(Malformed):
        decode(api_key, version, data)


@every_plain
def test_the_walk_ends_where_the_request_ends(api_key: int, version: int) -> None:
    data = request_body(api_key, version, PLAIN_REQUESTS[api_key])
    assert (
        walker(load_request_schema(api_key, version))(b"ab" + data + b"behind", 2, Notes()) == len(data) + 2
    )


@pytest.mark.slow
def test_every_request_kio_knows_can_be_walked() -> None:
    """Also of APIs that come later: a field of a kind the walk does not know would be a hole in the guard."""
    for api_key in api_key_map:
        oldest, newest = messages.known_versions(api_key)
        for version in range(oldest, newest + 1):
            data = request_body(api_key, version, {})
            assert walker(load_request_schema(api_key, version))(data, 0, Notes()) == len(data)


class TestTaggedFields:
    """VoteRequest and friends carry data in tagged fields; none of them is served yet."""

    schema = load_request_schema(1, 17)  # Fetch: cluster id is field 0, replica state field 1

    def walk(self, tags: bytes) -> int:
        body = request_body(1, 17, {})
        assert body.endswith(b"\x00")
        return walker(self.schema)(body[:-1] + tags, 0, Notes()) - len(body) + 1

    def test_known_and_unknown_fields(self) -> None:
        tags = b"\x03" + b"\x00\x04\x04abc" + b"\x01\x0d" + bytes(13) + b"\x63\x02??"
        assert self.walk(tags) == len(tags)

    def test_a_field_that_leads_outside(self) -> None:
        with pytest.raises(Malformed):
            self.walk(b"\x01\x63\x05ab")

    def test_a_field_that_is_longer_than_it_claims(self) -> None:
        with pytest.raises(Malformed, match="tagged field 1 "):
            self.walk(b"\x01\x01\x0c" + bytes(13))
