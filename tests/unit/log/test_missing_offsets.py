"""Offsets that are missing between two batches: compaction leaves them out, or the disk has lost them."""

from collections.abc import Iterator

import pytest

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log.cleaner_files import read_batches
from tidelog.log.cleaner_plan import sources_of
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment, pieces
from tidelog.sim.disk import SimulatedDisk, everything, nothing
from unit.log.log_model import ONE_SEGMENT, SMALL, Settings, append_many, contents, make_batch, open_log, sync

SIZE = len(make_batch(0))
FIRST = "t-0/00000000000000000000.log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def reopen(disk: SimulatedDisk, settings: Settings = ONE_SEGMENT, *, clean: bool, synced: int = 0) -> Log:
    return Log.open(
        disk, "t-0", settings, clean=clean, recovery_point=synced, now_ms=1000, same_boot=not clean
    )


def misplace(disk: SimulatedDisk, source: int, target: int) -> None:
    """The batch at an offset lies in the place of another one, in a first segment of equal batches, too."""
    data = disk.contents("t-0")[FIRST]
    disk.open(FIRST).write_at(target * SIZE, data[source * SIZE : (source + 1) * SIZE])


def marks(disk: SimulatedDisk) -> list[str]:
    return [entry.name for entry in disk.list("t-0") if entry.name.endswith(".dense")]


def followed(disk: SimulatedDisk, *offsets: int) -> Log:
    """A log that copied these offsets from a compacted one."""
    log = open_log(disk, ONE_SEGMENT)
    for offset in offsets:
        log.append_batches(memoryview(make_batch(offset)), 1000)
    return log


# --- the mark -----------------------------------------------------------------------------------------------


def test_a_log_is_dense_from_where_it_began(disk: SimulatedDisk) -> None:
    assert open_log(disk, log_start_offset=7).dense_from == 7


def test_a_log_of_an_earlier_version_is_dense_from_its_end_on(disk: SimulatedDisk) -> None:
    log = followed(disk, 0, 5)
    assert log.close()
    for name in marks(disk):
        disk.remove(f"t-0/{name}")
    log = reopen(disk, clean=False)
    assert (log.end_offset, log.dense_from, log.damage) == (6, 6, "")
    assert [batch[0] for batch in contents(log)] == [0, 5]


def test_a_follower_of_a_compacted_log_has_gaps(disk: SimulatedDisk) -> None:
    log = followed(disk, 0, 1, 5, 6, 9, 10)
    assert log.dense_from == 9
    disk.crash(everything, everything)
    log = reopen(disk, clean=False)
    assert (log.end_offset, log.dense_from, log.damage) == (11, 9, "")


def test_the_mark_is_durable_with_the_records_behind_the_gap(disk: SimulatedDisk) -> None:
    log = followed(disk, 0, 1, 5)
    sync(log)
    disk.crash(nothing, nothing)
    log = reopen(disk, clean=False, synced=6)
    assert (log.end_offset, log.dense_from, log.damage) == (6, 5, "")


def test_truncation_lowers_the_mark(disk: SimulatedDisk) -> None:
    log = followed(disk, 0, 1, 5)
    log.truncate_to(2)
    assert (log.end_offset, log.dense_from) == (2, 2)


def test_a_log_that_is_begun_anew_is_dense_from_there(disk: SimulatedDisk) -> None:
    log = followed(disk, 0, 1, 5)
    log.restart_at(20)
    assert log.dense_from == 20
    assert marks(disk) == ["00000000000000000020.dense"]


# --- what is missing ----------------------------------------------------------------------------------------


def test_recovery_notices_a_batch_in_the_place_of_another_one(disk: SimulatedDisk) -> None:
    append_many(open_log(disk, ONE_SEGMENT), 4)
    disk.crash(everything, everything)
    misplace(disk, 3, 2)
    log = reopen(disk, clean=False)
    assert log.damage
    assert [batch[0] for batch in contents(log)] == [0]  # One of the two is wrong, whichever.


def test_recovery_takes_gaps_that_a_follower_copied(disk: SimulatedDisk) -> None:
    followed(disk, 0, 3, 4)
    disk.crash(everything, everything)
    assert reopen(disk, clean=False).end_offset == 5


def read_all(log: Log, size: int) -> Iterator[int]:
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, size, log.end_offset, at_least_one_batch=True).read()
        yield offset
        offset += max(1, len(data) // SIZE)


@pytest.mark.parametrize("size", [1, SIZE, 2 * SIZE + 7, 1 << 20])
def test_readers_do_not_get_past_a_gap(disk: SimulatedDisk, size: int) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 8)
    assert log.close()
    misplace(disk, 5, 3)
    log = reopen(disk, clean=True, synced=8)
    with pytest.raises(DamagedSegment) as raised:
        list(read_all(log, size))
    assert raised.value.offset <= 3


def test_readers_get_what_lies_before_the_gap(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 8)
    assert log.close()
    disk.lose_write(FIRST, 3 * SIZE, SIZE)
    log = reopen(disk, clean=True, synced=8)
    assert len(log.read(0, 1 << 20, 3, at_least_one_batch=True).read()) == 2 * SIZE


def test_the_scrubber_notices_a_gap(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL)
    append_many(log, 40)
    assert _scrubbed(log) == ""
    misplace(disk, 5, 3)
    assert "offset 5 where 3 was expected" in _scrubbed(log)


def test_the_scrubber_notices_a_missing_end(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL)
    append_many(log, 40)
    segment, following = log.segments[0], log.segments[1]
    segment.size -= SIZE
    expected = f"ends at offset {segment.size // SIZE}, and {following.base_offset}"
    assert expected in _scrubbed(log)


def _scrubbed(log: Log) -> str:
    walk = pieces(log.segments[0], log.segments[1].base_offset)
    return next(walk).check().damage


def test_compaction_does_not_make_a_gap_its_own(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL)
    append_many(log, 40)
    [source] = sources_of(log, log.segments[1].base_offset)
    assert list(read_batches(disk, source))
    misplace(disk, 5, 3)
    with pytest.raises(CorruptBatch, match="where 3 was expected"):
        list(read_batches(disk, source))


def test_without_a_mark_gaps_are_taken_for_compaction(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL)
    append_many(log, 40)
    segment = log.segments[0]
    segment.dense = None
    assert segment.dense_from == LONG_MAX


# --- what was verified --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(1, 20))
def test_what_was_verified_ends_where_a_batch_ends(disk: SimulatedDisk, cut: int) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 6)
    assert log.close()
    log = reopen(disk, clean=True, synced=6)
    log.read(0, 3 * SIZE - cut, 6, at_least_one_batch=True)
    assert log.segments[0].verified.end % SIZE == 0
    for offset in range(6):
        assert len(log.read(offset, 1, 6, at_least_one_batch=True).read()) >= SIZE


def test_headers_from_the_middle_of_a_segment_are_not_held_against_its_beginning(disk: SimulatedDisk) -> None:
    """A truncation learns producers again from the newest snapshot on."""
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    [segment] = log.segments
    for number in range(5):
        found = [header.base_offset for _, header in segment.sound_headers(number * SIZE)]
        assert found == list(range(number, 5))
