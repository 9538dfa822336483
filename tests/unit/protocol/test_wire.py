"""Primitive encodings: round trips in both forms, and that no length leads outside of the buffer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ErrorCode
from tidelog.protocol import wire
from tidelog.protocol.wire import Malformed

flexible_or_not = pytest.mark.parametrize("flexible", [True, False])


class TestVarints:
    @given(value=st.integers(0, (1 << 35) - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
    def test_round_trip_anywhere_in_a_buffer(self, value: int, before: bytes, after: bytes) -> None:
        encoded = wire.write_uvarint(value)
        found = wire.read_uvarint(before + encoded + after, len(before))
        assert found == (value, len(before) + len(encoded))

    @pytest.mark.parametrize("value", [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 0x7FFFFFFF, 0xFFFFFFFF])
    def test_uses_as_few_bytes_as_possible(self, value: int) -> None:
        assert len(wire.write_uvarint(value)) == max(1, (value.bit_length() + 6) // 7)

    def test_five_bytes_are_the_most(self) -> None:
        assert wire.read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (0xFFFFFFFF, 5)
        with pytest.raises(Malformed, match="longer than five bytes"):
            wire.read_uvarint(b"\xff\xff\xff\xff\xff\x01", 0)

    @pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff"])
    def test_a_varint_that_is_cut_off(self, data: bytes) -> None:
        with pytest.raises(IndexError):
            wire.read_uvarint(memoryview(data), 0)


class TestStrings:
    @flexible_or_not
    @given(value=st.none() | st.text(max_size=200))
    def test_round_trip(self, flexible: bool, value: str | None) -> None:
        encoded = wire.write_string(value, flexible)
        assert wire.read_string(memoryview(encoded + b"more"), 0, flexible) == (value, len(encoded))

    @flexible_or_not
    @given(value=st.text(min_size=1, max_size=50), data=st.data())
    def test_a_string_that_is_cut_off(self, flexible: bool, value: str, data: st.DataObject) -> None:
        encoded = wire.write_string(value, flexible)
        cut = data.draw(st.integers(0, len(encoded) - 1))
        with pytest.raises((Malformed, IndexError, wire.STRUCT_ERROR)):
            wire.read_string(memoryview(encoded[:cut]), 0, flexible)

    @pytest.mark.parametrize(("flexible", "data"), [(True, b"\x03\xff\xfe"), (False, b"\x00\x02\xff\xfe")])
    def test_not_utf8(self, flexible: bool, data: bytes) -> None:
        with pytest.raises(Malformed, match="UTF-8"):
            wire.read_string(memoryview(data), 0, flexible)

    @pytest.mark.parametrize("flexible", [False, True])
    def test_those_of_requests_are_as_long_as_in_kafka(self, flexible: bool) -> None:
        longest = wire.write_string("x" * wire.STRING_BYTES_MAX, flexible)
        assert wire.read_short_string(longest, 0, flexible) == ("x" * wire.STRING_BYTES_MAX, len(longest))
        assert wire.read_short_string(wire.write_string(None, flexible), 0, flexible)[0] is None

    def test_longer_ones_are_not_decoded(self) -> None:
        """A name of 90 MB held the event loop for a quarter of a second."""
        with pytest.raises(Malformed, match="more than 32767 bytes"):
            wire.read_short_string(wire.write_string("x" * (wire.STRING_BYTES_MAX + 1), True), 0, True)


class TestByteStrings:
    @pytest.mark.parametrize(("flexible", "null"), [(True, b"\x00"), (False, b"\xff\xff\xff\xff")])
    def test_null(self, flexible: bool, null: bytes) -> None:
        assert wire.read_bytes(memoryview(null), 0, flexible) == (None, len(null))

    @pytest.mark.parametrize(("flexible", "head"), [(True, b"\x04"), (False, b"\x00\x00\x00\x03")])
    def test_is_a_view_of_the_buffer_and_no_copy(self, flexible: bool, head: bytes) -> None:
        buffer = bytearray(head + b"abc" + b"rest")
        found, end = wire.read_bytes(memoryview(buffer), 0, flexible)
        assert found is not None
        assert (bytes(found), end) == (b"abc", len(head) + 3)
        buffer[len(head)] = ord("X")
        assert bytes(found) == b"Xbc"

    @pytest.mark.parametrize(
        ("flexible", "data"),
        [(True, b"\x05abc"), (False, b"\x00\x00\x00\x04abc"), (False, b"\x7f\xff\xff\xff")],
    )
    def test_a_length_that_leads_outside(self, flexible: bool, data: bytes) -> None:
        with pytest.raises(Malformed, match="past the end"):
            wire.read_bytes(memoryview(data), 0, flexible)


class TestArraySizes:
    @flexible_or_not
    @given(count=st.integers(0, 1000))
    def test_round_trip(self, flexible: bool, count: int) -> None:
        encoded = wire.write_array_size(count, flexible)
        assert wire.read_array_size(encoded + bytes(count), 0, flexible) == (count, len(encoded))

    @pytest.mark.parametrize(
        ("flexible", "null"), [(True, b"\x00"), (False, b"\xff\xff\xff\xff"), (False, b"\x80\x00\x00\x00")]
    )
    def test_null_counts_as_empty(self, flexible: bool, null: bytes) -> None:
        assert wire.read_array_size(null, 0, flexible) == (0, len(null))

    @pytest.mark.parametrize(
        ("flexible", "data"),
        [(True, b"\x04ab"), (True, b"\xff\xff\xff\xff\x0f"), (False, b"\x7f\xff\xff\xff")],
    )
    def test_more_elements_than_bytes(self, flexible: bool, data: bytes) -> None:
        with pytest.raises(Malformed, match="an array of"):
            wire.read_array_size(data, 0, flexible)


class TestTags:
    @given(fields=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(max_size=200)), max_size=5))
    def test_unknown_fields_are_skipped(self, fields: list[tuple[int, bytes]]) -> None:
        section = wire.write_uvarint(len(fields))
        for tag, content in fields:
            section += wire.write_uvarint(tag) + wire.write_uvarint(len(content)) + content
        assert wire.skip_tags(section + b"behind", 0) == len(section)

    def test_a_field_that_leads_outside(self) -> None:
        with pytest.raises(Malformed, match="tagged field"):
            wire.skip_tags(b"\x01\x00\x05abc", 0)

    def test_a_false_count_ends_with_the_buffer(self) -> None:
        with pytest.raises(IndexError):
            wire.skip_tags(b"\x0f\x00\x00", 0)

    def test_some_unknown_fields_are_skipped(self) -> None:
        section = wire.write_uvarint(wire.TAGS_MAX) + b"\x01\x02ab" * wire.TAGS_MAX
        assert wire.skip_tags(section + b"rest", 0) == len(section)

    def test_so_many_that_they_would_hold_the_event_loop_are_refused(self) -> None:
        """A Produce request of 40 MB with twenty million in its header held it for 13 s."""
        with pytest.raises(Malformed, match="tagged fields"):
            wire.skip_tags(wire.write_uvarint(wire.TAGS_MAX + 1) + b"\x01\x00" * (wire.TAGS_MAX + 1), 0)


def test_malformed_is_an_invalid_request() -> None:
    assert Malformed("x").code is ErrorCode.INVALID_REQUEST
