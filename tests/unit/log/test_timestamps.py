"""Looking up by time, against a scan over all records."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.log_model import SMALL, append, contents, make_batch, open_log, record_batch

Timestamps = list[list[int]]


def build(rows: Timestamps, *, reopen: bool = False) -> tuple[Log, list[tuple[int, int, int]]]:
    """A log with these batches, and (timestamp, offset, epoch) of each record."""
    disk = SimulatedDisk()
    log = open_log(disk, SMALL.but(segment_bytes=600, index_interval_bytes=100))
    records = []
    for number, timestamps in enumerate(rows):
        base = log.end_offset
        epoch = number // 5
        append(log, record_batch(base, timestamps, epoch=epoch))
        records += [(timestamp, base + n, epoch) for n, timestamp in enumerate(timestamps)]
    if reopen:
        log.close()
        log = open_log(disk, SMALL.but(segment_bytes=600, index_interval_bytes=100), clean=True)
    return log, records


batch_timestamps = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=30)


@given(batch_timestamps, st.integers(-1, 62), st.integers(0, 130), st.integers(0, 20), st.booleans())
@settings(deadline=None)
def test_the_first_record_not_older(
    rows: Timestamps, wanted: int, end: int, start: int, reopen: bool
) -> None:
    log, records = build(rows, reopen=reopen)
    log.advance_start(min(start, log.end_offset))
    readable = [record for record in records if log.start_offset <= record[1] < end]
    expected = next((record for record in readable if record[0] >= wanted), None)
    assert log.find_timestamp(wanted, end) == expected


@given(batch_timestamps, st.integers(0, 130), st.booleans())
@settings(deadline=None)
def test_the_newest_record_of_whole_batches_before_the_end(rows: Timestamps, end: int, reopen: bool) -> None:
    log, records = build(rows, reopen=reopen)
    whole_end = max((last + 1 for _, last, _ in contents(log, end_offset=end)), default=0)
    readable = [record for record in records if record[1] < whole_end]
    expected = max(readable, key=lambda record: (record[0], -record[1]), default=None)
    assert log.find_max_timestamp(end) == expected


def test_an_empty_log_has_no_time() -> None:
    log = open_log(SimulatedDisk())
    assert log.find_timestamp(0, 100) is None
    assert log.find_max_timestamp(100) is None


def test_records_without_timestamps_are_not_found() -> None:
    log = open_log(SimulatedDisk())
    append(log, record_batch(0, [-1, -1]))
    assert log.find_timestamp(0, 100) is None
    assert log.find_max_timestamp(100) is None


def test_append_time_is_the_time_of_every_record() -> None:
    log = open_log(SimulatedDisk())
    append(log, make_batch(0, count=1, timestamp=1))
    data = record_batch(1, [5, 6, 7])
    batches.set_append_time(data, 0, len(data), 500)
    append(log, data)
    assert log.find_timestamp(400, 100) == (500, 1, 0)
    assert log.find_max_timestamp(100) == (500, 1, 0)


@pytest.mark.parametrize("how", ["as copied", "recovered", "rebuilt", "truncated"])
def test_a_batch_without_records_has_no_time(how: str) -> None:
    """Compaction leaves such batches, with the timestamp they had."""
    disk = SimulatedDisk()
    log = open_log(disk)
    empty = batches.build(
        b"",
        base_offset=2,
        last_offset_delta=0,
        count=0,
        base_timestamp=900,
        max_timestamp=900,
        leader_epoch=0,
    )
    copied = record_batch(0, [5, 7]) + empty + record_batch(3, [6])
    log.append_batches(memoryview(copied + record_batch(4, [3])), 1000)
    if how == "truncated":
        log.truncate_to(4)
    if how == "recovered":
        disk.crash(survive=everything, names=everything)
        log = open_log(disk)
    elif how == "rebuilt":
        log.roll(1000)
        assert log.close()
        disk.remove("t-0/00000000000000000000.timeindex")
        log = open_log(disk, clean=True)
    assert log.segments[0].indexes.load_max_timestamp() == 7
    assert log.find_timestamp(8, 100) is None
    assert [log.find_max_timestamp(end) for end in (2, 3, 4, 100)] == [(7, 1, 0)] * 4
    log.advance_start(2)
    assert log.find_max_timestamp(3) is None
    assert log.find_max_timestamp(4) == (6, 3, 0)


@given(batch_timestamps, st.integers(0, 130), st.integers(0, 20), st.booleans())
@settings(deadline=None)
def test_the_newest_record_behind_the_start(rows: Timestamps, end: int, start: int, reopen: bool) -> None:
    log, records = build([[each[0]] for each in rows], reopen=reopen)
    log.advance_start(min(start, log.end_offset))
    readable = [record for record in records if log.start_offset <= record[1] < end]
    expected = max(readable, key=lambda record: (record[0], -record[1]), default=None)
    assert log.find_max_timestamp(end) == expected


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("start", [0, 10])
def test_the_newest_record_is_not_looked_for_everywhere(
    step: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment may hold ten million batches, and each is read and checked once it was closed."""
    disk = SimulatedDisk(tells=False)
    log = open_log(disk, SMALL.but(segment_bytes=1 << 20, segment_index_bytes=1 << 16))
    for number in range(1000):
        append(log, record_batch(number, [1000 + step * number]))
    log.close()
    log = open_log(disk, SMALL.but(segment_bytes=1 << 20, segment_index_bytes=1 << 16), clean=True)
    log.advance_start(start)
    checked = 0
    check = Segment._check_batch

    def count(*given: Any) -> None:
        nonlocal checked
        checked += 1
        check(*given)

    monkeypatch.setattr(Segment, "_check_batch", count)
    for end in (1000, 990):
        assert log.find_max_timestamp(end) == ((1000 + end - 1, end - 1, 0) if step else (1000, start, 0))
    assert checked < 50
