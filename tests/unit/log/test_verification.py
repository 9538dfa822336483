"""Damage in old segments: found when it is read, and by who walks over everything."""

from typing import Any

import pytest

from tidelog.config import TopicConfig
from tidelog.log import reading
from tidelog.log.log import Log
from tidelog.log.reading import Unread
from tidelog.log.segment import Segment
from tidelog.log.verification import DamagedSegment, VerifiedPiece, check, pieces, verify_read
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
CONFIG = TopicConfig(segment_bytes=2000)


def write(log: Log, count: int, size: int = 100) -> None:
    for _ in range(count):
        offset = log.end_offset
        data = encode_batch([Record(offset, NOW_MS, None, b"x" * size, ())], leader_epoch=0)
        log.append(memoryview(data), offset, NOW_MS, 0, NOW_MS)


@pytest.fixture
def log() -> Log:
    """Forty batches in several segments that an earlier process wrote."""
    disk = SimulatedDisk()
    disk.make_directory("data")
    written = Log.open(disk, "data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    write(written, 40)
    assert written.close()
    return Log.open(disk, "data/t-0", CONFIG, clean=True, now_ms=NOW_MS)


def flip(log: Log, segment_number: int, position: int) -> None:
    file = log.segments[segment_number].file()
    byte = bytes(file.read_at(position, 1))[0]
    file.write_at(position, bytes([byte ^ 0x10]))


def read(log: Log, offset: int, size: int = 1 << 20) -> bytes:
    return bytes(log.read(offset, size, log.end_offset, at_least_one_batch=True).read())


def size_of(log: Log, segment_number: int) -> int:
    data = log.segments[segment_number].region().read()
    return next(batches.iterate(data))[1].size


def test_whole_records_are_read_and_remembered_as_such(log: Log) -> None:
    segment = log.segments[0]
    assert segment.verified.end == 0
    read(log, 0)
    assert segment.verified.end == segment.size


def test_a_flipped_bit_never_reaches_a_reader(log: Log) -> None:
    flip(log, 0, 3 * size_of(log, 0) + 70)
    with pytest.raises(DamagedSegment) as damage:
        read(log, 0)
    assert damage.value.offset == 3
    assert len(read(log, 0, 200)) == 200  # What lies before is served.
    with pytest.raises(DamagedSegment):
        read(log, 3)


@pytest.mark.parametrize("position", [0, 4, 8, 10])
def test_not_even_where_no_checksum_covers_it(log: Log, position: int) -> None:
    """Offset and length of a batch are outside of its checksum."""
    flip(log, 0, 2 * size_of(log, 0) + position)
    with pytest.raises(DamagedSegment) as damage:
        read(log, 0)
        read(log, 3)
    assert damage.value.offset <= 3


def test_a_batch_that_claims_to_end_behind_what_may_be_read_is_found(log: Log) -> None:
    """Otherwise there would seem to be nothing to read yet, and readers would wait for ever."""
    flip(log, 0, 3 * size_of(log, 0) + 26)  # The lowest byte of its last offset.
    with pytest.raises(DamagedSegment) as damage:
        log.read(3, 1 << 20, 10, at_least_one_batch=True)
    assert damage.value.offset == 3


def test_a_whole_batch_that_ends_behind_what_may_be_read_is_no_damage(log: Log) -> None:
    offset = log.end_offset
    records = [Record(offset + number, NOW_MS, None, b"x", ()) for number in range(3)]
    log.append(memoryview(encode_batch(records, leader_epoch=0)), offset + 2, NOW_MS, 0, NOW_MS)
    write(log, 1)
    assert log.close()
    again = Log.open(log.segments[0]._storage, "data/t-0", CONFIG, clean=True, now_ms=NOW_MS)
    assert not again.read(offset, 1 << 20, offset + 1, at_least_one_batch=True).read()


def test_what_this_process_wrote_is_not_read_back(log: Log) -> None:
    start = log.end_offset
    write(log, 3)
    flip(log, len(log.segments) - 1, log.segments[-1].size - 5)
    assert read(log, start)


def test_truncation_forgets_what_was_known(log: Log) -> None:
    read(log, log.segments[-1].base_offset)
    log.truncate_to(log.end_offset - 1)
    assert log.segments[-1].verified.end <= log.segments[-1].size
    write(log, 1)
    assert read(log, log.end_offset - 1)


def walk(log: Log, segment_number: int) -> list[VerifiedPiece]:
    found: list[VerifiedPiece] = []
    following = log.segments[segment_number + 1 : segment_number + 2]
    steps = pieces(log.segments[segment_number], following[0].base_offset if following else log.end_offset)
    try:
        piece = next(steps)
        while True:
            found.append(piece.check())
            piece = steps.send(found[-1])
    except StopIteration:
        return found


def test_a_walk_sees_every_byte(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.log.verification.PIECE_BYTES", 300)
    found = walk(log, 0)
    assert len(found) > 3
    assert sum(each.whole_bytes for each in found) == log.segments[0].size
    flip(log, 0, log.segments[0].size - 1)
    assert walk(log, 0)[-1].damage


def test_a_batch_larger_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    disk.make_directory("data")
    log = Log.open(disk, "data/t-0", TopicConfig(segment_bytes=5000), clean=False, now_ms=NOW_MS)
    write(log, 3, 1400)
    monkeypatch.setattr("tidelog.log.verification.PIECE_BYTES", 100)
    assert sum(each.whole_bytes for each in walk(log, 0)) == log.segments[0].size


def test_nothing_is_wrong_with_an_unfinished_end() -> None:
    data = bytes(encode_batch([Record(5, NOW_MS, None, b"x", ())], leader_epoch=0))
    assert check(memoryview(data[:-1]), 0, 6, to_the_end=False) == VerifiedPiece(0, 0, "")
    assert check(memoryview(data[:-1]), 0, 6, to_the_end=True).damage
    assert check(memoryview(data), 0, 6, to_the_end=True) == VerifiedPiece(len(data), 6, "")
    assert check(memoryview(data), 6, 9, to_the_end=True).damage
    assert check(memoryview(data), 0, 5, to_the_end=True).damage


class Reads:
    """Counts what is read back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []

        def counted(
            segment: Segment, position: int, size: int, *rest: int, **how: Any
        ) -> tuple[BatchHeader | None, int]:
            self.sizes.append(size)
            return verify_read(segment, position, size, *rest, **how)

        monkeypatch.setattr(reading, "verify_read", counted)
        monkeypatch.setattr(reading, "SLICE_BYTES", 400)


def test_a_reader_gets_what_was_checked_a_slice_at_a_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, segment = Reads(monkeypatch), log.segments[0]
    whole, offset = b"", 0
    while offset < log.segments[1].base_offset:
        data = read(log, offset)
        assert len(data) <= 400
        found = list(batches.iterate(data))
        whole += data[: found[-1][0] + found[-1][1].size]
        offset = found[-1][1].next_offset
    assert whole == bytes(segment.region().read())
    assert set(reads.sizes[:-1]) == {400}
    assert segment.verified.end == segment.size


def test_what_is_read_from_the_middle_again_is_not_checked_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    first = read(log, 4)
    assert len(reads.sizes) == 1
    assert read(log, 4)  # Only whole batches count as checked.
    assert read(log, 5)
    assert len(reads.sizes) == 1
    assert log.segments[0].verified.end == 0
    assert log.segments[0].verified.parts
    for _ in range(3):
        read(log, 0)
        read(log, 2)
    assert len(reads.sizes) <= 3
    assert len(first) == 400


def test_a_batch_that_is_larger_than_a_slice_is_read_whole(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    Reads(monkeypatch)
    monkeypatch.setattr(reading, "SLICE_BYTES", 10)
    assert len(read(log, 4)) == size_of(log, 0)


def test_a_reader_gets_a_whole_batch_where_what_was_checked_ends_within_it(log: Log) -> None:
    """Less than one whole batch would be asked for again and again."""
    first = size_of(log, 0)
    for end in (1, first - 1, first, first + 1):
        log.segments[0].verified.end, log.segments[0].verified.parts = end, []
        assert len(read(log, 0)) >= first


@pytest.mark.parametrize("more", range(1, 24))
def test_a_read_that_ends_within_a_batch_does_not_shorten_the_next_one(log: Log, more: int) -> None:
    """Also where the rest of that batch was seen: the check looks at the beginning of what follows."""
    size = size_of(log, 0)
    read(log, 0, 2 * size - more)
    assert log.segments[0].verified.end % size == 0
    following = [header.base_offset for _, header in batches.iterate(read(log, 1, 10))]
    assert following == [1]


def test_ranges_that_were_checked_grow_together_and_are_cut(log: Log) -> None:
    segment = log.segments[0]
    segment.verified.note(100, 200)
    segment.verified.note(300, 400)
    assert (segment.verified.end_from(150), segment.verified.end_from(200)) == (200, 200)
    segment.verified.note(200, 300)
    assert segment.verified.parts == [(100, 400)]
    segment.verified.note(0, 50)
    assert (segment.verified.end, segment.verified.end_from(50)) == (50, 50)
    segment.verified.note(50, 120)
    assert (segment.verified.end, segment.verified.parts) == (400, [])


def test_what_was_cut_off_does_not_count_as_checked(log: Log) -> None:
    read(log, 4)
    size = size_of(log, 0)
    segment = log.segments[0]
    assert segment.verified.parts == [(4 * size, segment.size)]
    log.truncate_to(6)
    assert log.segments[0].verified.parts == [(4 * size, 6 * size)]


@pytest.mark.parametrize("beyond", range(24))
def test_what_counts_as_whole_ends_with_a_batch(log: Log, beyond: int) -> None:
    """An answer may end a few bytes before a batch does. Who reads on there gets that batch, and not the few
    bytes of it that an earlier reader was given.
    """
    segment, size = log.segments[0], size_of(log, 0)
    data = read(log, 0, 3 * size - beyond)
    assert len(data) == 3 * size - beyond
    assert segment.verified.end % size == 0
    for offset in range(4):
        found = read(log, offset, 10)
        assert batches.check(found).base_offset == offset


def test_a_batch_at_the_end_of_a_read_is_held_against_the_next_one(log: Log) -> None:
    """Its offset is under no checksum, and the one behind it was not looked at."""
    size = size_of(log, 0)
    flip(log, 0, 2 * size + 6)  # 2 becomes 4,098
    with pytest.raises(DamagedSegment):
        read(log, 0, 3 * size - 4)
        read(log, 2, size)


@pytest.fixture
def of_two_epochs() -> Log:
    disk = SimulatedDisk()
    disk.make_directory("data")
    written = Log.open(disk, "data/t-0", CONFIG, clean=False, now_ms=NOW_MS)
    for offset in range(40):
        data = encode_batch([Record(offset, NOW_MS, None, b"x" * 100, ())], leader_epoch=offset // 5)
        written.append(memoryview(data), offset, NOW_MS, offset // 5, NOW_MS)
    assert written.close()
    return Log.open(disk, "data/t-0", CONFIG, clean=True, now_ms=NOW_MS)


@pytest.mark.parametrize("place", ["within a segment", "at its beginning"])
def test_a_wrong_epoch_is_told_to_everybody_who_asks(of_two_epochs: Log, place: str) -> None:
    """Not only to the first one, after whom the batch would count as read."""
    log = of_two_epochs
    segment = log.segments[1]
    offset = segment.base_offset if place == "at its beginning" else segment.base_offset + 2
    while log.epochs.epoch_at(offset) != log.epochs.epoch_at(offset - 1):
        offset += 1
    position = segment.locate(offset).position
    file = segment.file()
    file.write_at(position + 12, (log.epochs.epoch_at(offset) - 1).to_bytes(4, "big"))
    for _ in range(3):
        with pytest.raises(DamagedSegment):
            read(log, offset, 10)


def test_many_logs_that_are_read_at_once_are_read_back_a_little_each() -> None:
    disk = SimulatedDisk()
    disk.make_directory("data")
    unread, sizes = Unread(), []
    for number in range(4):
        config = TopicConfig(segment_bytes=1 << 20)
        written = Log.open(disk, f"data/t-{number}", config, clean=False, now_ms=NOW_MS)
        write(written, 100, 1000)
        assert written.close()
        log = Log.open(disk, f"data/t-{number}", config, clean=True, now_ms=NOW_MS)
        found = log.read(0, 1 << 20, log.end_offset, at_least_one_batch=True, unread=unread)
        assert batches.check(found.read()).base_offset == 0
        sizes.append(found.size)
    size = size_of(log, 0)
    assert sizes[:1] == [100 * size]
    assert size <= sizes[1] < 100 * size
    assert sizes[2:] == [size, size]
