"""Appending, rolling and reading, on a disk that behaves."""

import errno
from typing import NoReturn

import pytest

from tidelog.errors import CorruptBatch, OffsetOutOfRange, StorageError
from tidelog.log.log import Log
from tidelog.log.storage import EMPTY_REGION
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import ONE_SEGMENT, SMALL, append, append_many, contents, make_batch, open_log


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def first_offset(log: Log, offset: int) -> int:
    return batches.parse_header(
        log.read(offset, 1, log.end_offset, at_least_one_batch=True).read()
    ).base_offset


def test_a_new_log_is_empty_and_lies_on_disk_as_kafka_names_it(disk: SimulatedDisk) -> None:
    log = open_log(disk, log_start_offset=7)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (7, 7, 0)
    assert {entry.name for entry in disk.list("t-0")} == {
        "00000000000000000007.log",
        "00000000000000000007.index",
        "00000000000000000007.timeindex",
        "00000000000000000007.dense",
    }


def test_what_was_appended_is_read_back_at_every_offset(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 95)
    assert len(log.segments) > 5
    assert [base for base, _, _ in contents(log)] == list(range(95))
    for offset in range(95):
        assert first_offset(log, offset) == offset


def test_an_offset_inside_a_batch_finds_the_batch(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    for _ in range(30):
        append(log, make_batch(log.end_offset, count=7))
    for offset in range(log.end_offset):
        assert first_offset(log, offset) == offset - offset % 7


def test_reading_outside_the_log_is_refused_and_at_its_end_is_empty(disk: SimulatedDisk) -> None:
    log = open_log(disk, log_start_offset=3)
    append_many(log, 5)
    for offset in (2, 9):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 8, at_least_one_batch=True)
    assert log.read(8, 100, 8, at_least_one_batch=True) is EMPTY_REGION
    assert log.read(6, 100, 6, at_least_one_batch=True) is EMPTY_REGION


@pytest.mark.parametrize("end_offset", range(61))
def test_nothing_at_or_behind_the_given_end_offset_is_returned(disk: SimulatedDisk, end_offset: int) -> None:
    log = open_log(disk)
    for _ in range(30):
        append(log, make_batch(log.end_offset, count=2))
    whole = end_offset - end_offset % 2
    assert [last + 1 for _, last, _ in contents(log, end_offset=end_offset)] == list(range(2, whole + 1, 2))


def test_max_bytes_cuts_anywhere_but_the_first_batch_stays_whole_when_asked(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 20)
    for offset in (0, 5, 19):
        assert log.read(offset, 99, 20, at_least_one_batch=False).size == 99
        assert log.read(offset, 99, 20, at_least_one_batch=True).size == 100
    assert log.read(0, 250, 20, at_least_one_batch=True).size == 250
    assert log.read(0, 1 << 30, 20, at_least_one_batch=True).size == 2000


def test_a_region_stays_readable_when_its_segment_is_deleted(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_bytes=0))
    append_many(log, 25)
    region = log.read(0, 1 << 20, 25, at_least_one_batch=True)
    before = region.read()
    log.enforce_retention(1000, 25)
    log.remove_deleted(1 << 60)
    assert region.read() == before


def test_segments_roll_by_size(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 31)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20, 30]
    assert [segment.size for segment in log.segments] == [1000, 1000, 1000, 100]
    assert log.size_bytes == 3100


def test_a_batch_larger_than_a_segment_gets_its_own(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 1)
    append(log, make_batch(1, b"x" * 5000))
    append_many(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert [base for base, _, _ in contents(log)] == [0, 1, 2]


def test_segments_roll_by_age_of_their_batches(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT.but(segment_ms=50))
    for timestamp in (1000, 1050, 1051, 1052, 1200):
        append(log, make_batch(log.end_offset, timestamp=timestamp))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_the_age_of_a_segment_survives_reopening(disk: SimulatedDisk) -> None:
    settings = ONE_SEGMENT.but(segment_ms=50)
    log = open_log(disk, settings)
    append(log, make_batch(0, timestamp=1000))
    log.close()
    log = open_log(disk, settings, clean=True)
    append(log, make_batch(1, timestamp=1050))
    append(log, make_batch(2, timestamp=1051))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize(
    ("policy", "rolls_at"), [({"compact"}, 50), ({"compact", "delete"}, 50), ({"delete"}, 70)]
)
def test_a_compacted_log_rolls_in_time_for_its_maximum_lag(
    disk: SimulatedDisk, policy: set[str], rolls_at: int
) -> None:
    settings = ONE_SEGMENT.but(segment_ms=70, max_compaction_lag_ms=50, cleanup_policy=frozenset(policy))
    log = open_log(disk, settings)
    for timestamp in (1000, 1000 + rolls_at, 1001 + rolls_at):
        append(log, make_batch(log.end_offset, timestamp=timestamp))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_makes_segments_roll_earlier_by_different_times(disk: SimulatedDisk) -> None:
    lengths = set()
    for number in range(8):
        settings = ONE_SEGMENT.but(segment_ms=1000, segment_jitter_ms=900)
        log = open_log(disk, settings, directory=f"t-{number}")
        while len(log.segments) == 1:
            append(log, make_batch(log.end_offset, timestamp=5000 + log.end_offset))
        lengths.add(log.end_offset)
    assert len(lengths) > 1
    assert all(100 <= length <= 1002 for length in lengths)


def test_segments_roll_when_an_index_is_full(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT.but(segment_index_bytes=60))
    append_many(log, 60)
    assert len(log.segments) > 1
    assert all(segment.indexes.times.count <= 5 for segment in log.segments)
    assert [base for base, _, _ in contents(log)] == list(range(60))


def test_segments_roll_before_a_relative_offset_overflows(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 3)
    far = 3 + (1 << 31)
    log.append_batches(memoryview(make_batch(far)), 1000)
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert log.end_offset == far + 1
    assert first_offset(log, 3) == far


def test_an_empty_segment_moves_up_when_the_first_batch_is_too_far(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    far = 1 << 40
    log.append_batches(memoryview(make_batch(far)), 1000)
    assert [segment.base_offset for segment in log.segments] == [far]
    assert not any(entry.name.startswith("00000000000000000000") for entry in disk.list("t-0"))


def test_rolling_an_empty_segment_does_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    log.roll(1000)
    append_many(log, 1)
    log.roll(1000)
    log.roll(1000)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_settings_change_on_a_live_log(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    log.config = SMALL.but(segment_bytes=300)
    append_many(log, 4)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 8]


class TestAppendBatches:
    def test_batches_keep_their_offsets_and_gaps(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        data = b"".join(bytes(make_batch(offset, epoch=2)) for offset in (4, 5, 9, 20))
        assert log.append_batches(memoryview(data), 1000) == 21
        assert [base for base, _, _ in contents(log)] == [4, 5, 9, 20]
        assert first_offset(log, 10) == 20
        assert log.epochs.entries == [(2, 4)]

    def test_a_long_answer_is_spread_over_segments_and_written_in_few_writes(
        self, disk: SimulatedDisk
    ) -> None:
        log = open_log(disk)
        data = b"".join(bytes(make_batch(offset, epoch=offset // 20)) for offset in range(50))
        disk.story.clear()
        log.append_batches(memoryview(data), 1000)
        assert [segment.base_offset for segment in log.segments] == [0, 10, 20, 30, 40]
        assert sum(" write " in line and ".log" in line for line in disk.story) == 5
        assert [base for base, _, _ in contents(log)] == list(range(50))
        assert log.epochs.entries == [(0, 0), (1, 20), (2, 40)]

    def test_a_restarted_log_takes_a_batch_that_begins_before_its_start(self, disk: SimulatedDisk) -> None:
        """The leader's start lies inside that batch, and a batch is never cut."""
        log = open_log(disk)
        append_many(log, 3)
        log.restart_at(15)
        around = make_batch(10, count=10, epoch=3)
        assert log.append_batches(memoryview(bytes(around) + bytes(make_batch(20, epoch=4))), 1000) == 21
        assert (log.start_offset, log.epochs.entries) == (15, [(3, 15), (4, 20)])
        assert [base for base, _, _ in contents(log)] == [10, 20]
        again = open_log(disk, clean=False)
        assert (again.start_offset, again.end_offset) == (15, 21)

    def test_a_batch_that_ends_before_the_start_is_refused(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        log.restart_at(15)
        with pytest.raises(CorruptBatch):
            log.append_batches(memoryview(bytes(make_batch(10))), 1000)
        assert (log.start_offset, log.end_offset) == (15, 15)

    def test_a_partial_batch_at_the_end_is_left_out(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        data = bytes(make_batch(0)) + bytes(make_batch(1))[:-1]
        assert log.append_batches(memoryview(data), 1000) == 1

    @pytest.mark.parametrize("bad", ["crc", "offset", "epoch"])
    def test_a_bad_batch_keeps_all_of_them_out(self, disk: SimulatedDisk, bad: str) -> None:
        log = open_log(disk)
        append_many(log, 3, epoch=1)
        good = bytes(make_batch(3, epoch=2))
        second = make_batch(3 if bad == "offset" else 4, epoch=1 if bad == "epoch" else 2)
        if bad == "crc":
            second[-1] ^= 1
        with pytest.raises(CorruptBatch):
            log.append_batches(memoryview(good + bytes(second)), 1000)
        assert log.end_offset == 3
        assert log.epochs.entries == [(1, 0)]

    def test_an_epoch_led_without_a_record_gives_way_to_the_leaders_history(
        self, disk: SimulatedDisk
    ) -> None:
        log = open_log(disk)
        append_many(log, 3, epoch=4)
        log.epochs.assign(6, 3)
        log.append_batches(memoryview(make_batch(8, epoch=5)), 1000)
        assert log.epochs.entries == [(4, 0), (5, 8)]


def test_open_files_are_bounded(disk: SimulatedDisk) -> None:
    from tidelog.log.handles import HandleCache

    handles = HandleCache(limit=6)
    log = Log.open(disk, "t-0", SMALL, clean=False, now_ms=1000, handles=handles)
    append_many(log, 300)
    for offset in [*range(300), *range(299, -1, -7)]:
        assert first_offset(log, offset) == offset
        assert len(handles) <= 6
    held = sum(s._file is not None for s in log.segments)
    mapped = sum(i._view is not None for s in log.segments for i in (s.indexes.offsets, s.indexes.times))
    assert held + mapped == len(handles)


def test_a_log_whose_file_gave_way_goes_on(disk: SimulatedDisk) -> None:
    from tidelog.log.handles import HandleCache

    handles = HandleCache(limit=2)
    logs = [Log.open(disk, f"t-{n}", SMALL, clean=False, now_ms=1000, handles=handles) for n in range(5)]
    for _ in range(30):
        for log in logs:
            append_many(log, 1)
            assert len(handles) <= 2
    for log in logs:
        log.append_batches(memoryview(make_batch(30)), 1000)
        log.truncate_to(25)
    for log in logs:
        append_many(log, 5)
        assert [base for base, _, _ in contents(log)] == list(range(30))
        assert log.close()
    for log in logs:
        assert len(contents(open_log(disk, directory=log.directory, clean=True))) == 30


def test_too_many_open_files_refuse_an_append_and_fail_no_log(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(disk)
    append_many(log, 5)
    log.segments[-1].release()

    def refuse(path: str, *, create: bool = False) -> NoReturn:
        raise OSError(errno.EMFILE, "too many open files", path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open", refuse)
        for action in (lambda: append_many(log, 1), log.begin_sync):
            with pytest.raises(StorageError, match="too many open files"):
                action()
    assert log.failure is None
    append_many(log, 1)
    assert [base for base, _, _ in contents(log)] == list(range(6))


def test_a_newest_segment_that_was_removed_fails_the_log(disk: SimulatedDisk) -> None:
    """The directory of a running broker was removed: trying again, as with too few descriptors, would not
    end, and no other replica would lead.
    """
    log = open_log(disk)
    append_many(log, 5)
    newest = log.segments[-1]
    newest.release()
    disk.remove(newest._file_path(".log"))
    with pytest.raises(StorageError, match="cannot open the newest segment"):
        append_many(log, 1)
    assert log.failure is not None


def test_the_cost_of_a_read_does_not_depend_on_where_it_is(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 3000)
    log.close()
    log = open_log(disk, ONE_SEGMENT, clean=True)

    def operations(offset: int) -> int:
        first_offset(log, offset)
        before = disk.operations
        log.read(offset, 100, log.end_offset, at_least_one_batch=True)
        return disk.operations - before

    # One read to find the batch, and one to check what this process has not written itself, once.
    assert {operations(offset) for offset in (0, 1, 1500, 2998, 2999)} <= {1, 2}
