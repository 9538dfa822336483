"""Batches that lie in a log and hold no readable records: they stop nothing but themselves."""

import pytest

from tidelog.errors import CorruptBatch, ErrorCode
from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec, compress
from tidelog.protocol.records import Record, decode_batch, encode_batch
from tidelog.sim.disk import SimulatedDisk
from unit.log.compaction_model import COMPACT, compact, short, write
from unit.log.log_model import SMALL, append, open_log

CONFIG = SMALL.but(segment_bytes=1 << 16, index_interval_bytes=100)
HUGE = 2**31 - 1


def good(offset: int, timestamp_ms: int, count: int = 2) -> bytearray:
    records = [Record(offset + n, timestamp_ms + n, b"k%d" % (offset + n), b"v") for n in range(count)]
    return encode_batch(records, leader_epoch=0)


def bad(offset: int, timestamp_ms: int, body: bytes, count: int, attributes: int = 0) -> bytearray:
    return batches.build(
        body, base_offset=offset, last_offset_delta=count - 1, count=count, base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms, attributes=attributes, leader_epoch=0,
    )  # fmt: skip


def lying_delta(offset: int, timestamp_ms: int) -> bytearray:
    """Its second record claims an offset far behind its batch."""
    data = good(offset, timestamp_ms)
    at = batches.HEADER_SIZE + (len(data) - batches.HEADER_SIZE) // 2
    assert data[at + 3] == 2
    data[at + 3] = 0x7E
    batches.write_crc(data, 0, len(data))
    return data


BAD = {
    "ones": lambda offset, time: bad(offset, time, b"\xff" * 40, 3),
    "huge": lambda offset, time: bad(offset, time, b"\x0e" + b"\x00" * 39, HUGE),
    "too many": lambda offset, time: bad(offset, time, bytes(good(0, 0)[61:]), 3),
    "too few": lambda offset, time: bad(offset, time, bytes(good(0, 0)[61:]), 1),
    "no zstd": lambda offset, time: bad(offset, time, b"\xff" * 40, 3, Codec.ZSTD),
    "zstd of ones": lambda offset, time: bad(offset, time, bytes(compress(4, b"\xff" * 40)), 3, Codec.ZSTD),
    "offset delta": lying_delta,
}
every_kind = pytest.mark.parametrize("kind", sorted(BAD))


def build(disk: SimulatedDisk, kind: str) -> tuple[Log, int]:
    """Five batches, the middle one bad; and where the first good one behind it begins."""
    log = open_log(disk, CONFIG)
    append(log, good(0, 100))
    append(log, good(2, 200))
    append(log, BAD[kind](log.end_offset, 300))
    behind = log.end_offset
    append(log, good(behind, 400))
    append(log, good(behind + 2, 500))
    return log, behind


@every_kind
@pytest.mark.parametrize("state", ["open", "closed", "killed"])
def test_the_rest_is_read_and_found_by_time(kind: str, state: str) -> None:
    disk = SimulatedDisk()
    log, behind = build(disk, kind)
    if state != "open":
        log.close()
        log = open_log(disk, CONFIG, clean=state == "closed")
    assert log.end_offset == behind + 4
    for offset in (0, 3, 4, behind - 1, behind, behind + 3):
        region = log.read(offset, 1 << 20, log.end_offset, at_least_one_batch=True)
        first = next(header for _, header in batches.iterate(region.read()))
        assert first.base_offset <= offset <= first.last_offset
    data = log.read(behind, 1 << 20, log.end_offset, at_least_one_batch=True).read()
    assert [record.offset for record in decode_batch(data)] == [behind, behind + 1]
    assert log.find_timestamp(150, log.end_offset) == (200, 2, 0)
    if kind != "offset delta":
        assert log.find_timestamp(201, log.end_offset) == (201, 3, 0)
        assert log.find_timestamp(250, log.end_offset) == (400, behind, 0)
    assert log.find_timestamp(401, log.end_offset) == (401, behind + 1, 0)
    assert log.find_max_timestamp(log.end_offset) == (501, behind + 3, 0)
    found = log.find_max_timestamp(behind)
    assert found is not None
    assert found[0] >= 300 or kind == "offset delta"
    assert 4 <= found[1] < behind


@every_kind
@pytest.mark.parametrize("first", [True, False])
def test_the_rest_is_compacted(kind: str, first: bool) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, COMPACT.but(segment_bytes=1 << 20))
    if first:
        append(log, BAD[kind](log.end_offset, 300))
    write(log, ("a", "1"))
    write(log, ("b", "1"))
    append(log, BAD[kind](log.end_offset, 300))
    write(log, ("a", "2"))
    log.roll(1000)
    compact(disk, log, COMPACT)
    kept = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset, at_least_one_batch=True).read()
        for at, header in batches.iterate(data):
            offset = header.next_offset
            try:
                kept += list(decode_batch(data[at : at + header.size]))
            except CorruptBatch as error:
                assert error.code is ErrorCode.INVALID_RECORD
    assert "b1" in short(kept)
    assert "a2" in short(kept)
    assert "a1" not in short(kept)


def test_damage_is_not_taken_for_such_a_batch() -> None:
    """Its CRC was right when it was written: a look-up must not pass it by."""
    disk = SimulatedDisk()
    log = open_log(disk, CONFIG)
    append(log, good(0, 100))
    append(log, good(2, 200))
    file = log.segments[0].file()
    (byte,) = file.read_at(len(good(0, 100)) + 70, 1)
    file.write_at(len(good(0, 100)) + 70, bytes([byte ^ 1]))
    with pytest.raises(CorruptBatch) as refusal:
        log.find_timestamp(150, log.end_offset)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
