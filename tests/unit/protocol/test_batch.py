"""The batch header: what it says, what may be patched, and that broken bytes are refused in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.protocol import batch as batches
from tidelog.protocol.records import Record, decode_batch, encode_batch

RECORDS = [Record(100, 1_000, b"a", b"1"), Record(101, 3_000, None, b"2"), Record(102, 2_000, b"c", None)]


def three_records() -> bytearray:
    return encode_batch(RECORDS, leader_epoch=7, producer_id=9, producer_epoch=1, base_sequence=30)


def test_header_says_what_was_built() -> None:
    batch = three_records()
    header = batches.check(batch)
    assert header == batches.parse_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 3_000)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (
        7,
        9,
        1,
        30,
    )
    assert (header.count, header.size, header.codec) == (3, len(batch), 0)
    assert not (header.is_control or header.is_transactional or header.is_log_append_time)
    assert header.delete_horizon_ms is None
    assert batches.parse_prefix(batch) == (100, len(batch))


def test_kinds_are_told_by_attributes() -> None:
    header = batches.check(encode_batch(RECORDS, transactional=True, control=True))
    assert header.is_control
    assert header.is_transactional
    plain = batches.check(three_records())
    marked = batches.check(
        batches.rebuild(plain, b"", attributes=plain.attributes | batches.DELETE_HORIZON_MASK)
    )
    assert marked.delete_horizon_ms == 1_000


def test_assign_leaves_the_crc_right() -> None:
    batch = three_records()
    batches.assign(batch, 0, 5_000, 12)
    header = batches.check(batch)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (5_000, 5_002, 12)


def test_append_time_replaces_every_timestamp() -> None:
    batch = three_records()
    batches.set_append_time(batch, 0, len(batch), 77_000)
    header = batches.check(batch)
    assert header.is_log_append_time
    assert [record.timestamp for record in decode_batch(batch)] == [77_000] * 3


def test_iterate_stops_before_a_partial_batch() -> None:
    one = bytes(three_records())
    found = list(batches.iterate(one + one + one[:-1]))
    assert [position for position, _ in found] == [0, len(one)]
    assert list(batches.iterate(one + one, end=len(one) + 70)) == found[:1]


def test_iterate_stops_at_an_impossible_length() -> None:
    broken = three_records()
    broken[8:12] = (-5).to_bytes(4, "big", signed=True)
    assert list(batches.iterate(broken)) == []


@pytest.mark.parametrize(
    ("position", "patch", "reason", "code"),
    [
        (16, b"\x01", "magic byte 1, only 2 is supported", ErrorCode.INVALID_RECORD),
        (8, b"\x7f\xff\xff\xff", "the batch claims", ErrorCode.CORRUPT_MESSAGE),
        (8, b"\xff\xff\xff\xff", "the batch claims 11 bytes", ErrorCode.CORRUPT_MESSAGE),
        (60, b"\x09", "the CRC does not match", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_check_says_what_is_wrong(position: int, patch: bytes, reason: str, code: ErrorCode) -> None:
    batch = three_records()
    batch[position : position + len(patch)] = patch
    with pytest.raises(CorruptBatch, match=reason) as caught:
        batches.check(batch)
    assert caught.value.code is code


@pytest.mark.parametrize(("count", "last_offset_delta"), [(-1, 0), (0, -1), (3, 1), (1, -5)])
def test_impossible_counts_are_refused_even_under_a_valid_crc(count: int, last_offset_delta: int) -> None:
    batch = batches.build(
        b"",
        base_offset=0,
        last_offset_delta=last_offset_delta,
        count=count,
        base_timestamp=0,
        max_timestamp=0,
    )
    with pytest.raises(CorruptBatch, match="impossible counts"):
        batches.check(batch)


def test_every_cut_is_noticed() -> None:
    batch = three_records()
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            batches.check(batch[:size])


@given(position=st.integers(min_value=0), flip=st.integers(1, 255))
def test_every_flipped_bit_outside_offset_and_epoch_is_noticed(position: int, flip: int) -> None:
    batch = three_records()
    batch[position % len(batch)] ^= flip
    if position % len(batch) in {*range(8), *range(12, 16)}:
        batches.check(batch)  # assigned by the leader, so not under the CRC
    else:
        with pytest.raises(CorruptBatch):
            batches.check(batch)


@given(data=st.binary(max_size=200), position=st.integers(0, 220))
def test_arbitrary_bytes_are_refused(data: bytes, position: int) -> None:
    with pytest.raises(CorruptBatch):
        batches.check(data, position)
