"""The log start that a killed process begins with again, where the disk refuses to record a later one."""

from errno import EIO

import pytest

from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.log_model import append_many, contents, open_log

CREATE = "create"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    log = open_log(disk)
    append_many(log, 15)  # Ten batches per segment.
    return log


def begin_unrecorded(disk: SimulatedDisk, log: Log, offset: int) -> None:
    disk.failing[CREATE] = EIO
    log.advance_start(offset)


def test_a_start_that_is_recorded_is_kept(log: Log) -> None:
    log.advance_start(7)
    assert (log.start_is_kept, log.kept_start_offset, log.start_offset) == (True, 7, 7)


def test_a_refused_one_counts_for_readers_only(disk: SimulatedDisk, log: Log) -> None:
    begin_unrecorded(disk, log, 7)
    assert (log.start_is_kept, log.kept_start_offset, log.start_offset) == (False, 0, 7)
    assert not log.keep_start()
    disk.crash(survive=everything, names=everything)
    disk.failing.clear()
    assert open_log(disk).start_offset == 0


def test_it_is_recorded_when_the_disk_works_again(disk: SimulatedDisk, log: Log) -> None:
    begin_unrecorded(disk, log, 7)
    disk.failing.clear()
    assert log.keep_start()
    assert (log.start_is_kept, log.kept_start_offset) == (True, 7)
    disk.crash(survive=everything, names=everything)
    assert [base for base, _, _ in contents(open_log(disk))] == list(range(7, 15))


def test_an_earlier_mark_still_counts(disk: SimulatedDisk, log: Log) -> None:
    log.advance_start(3)
    disk.failing["rename"] = EIO
    log.advance_start(7)
    assert (log.kept_start_offset, log.start_offset) == (3, 7)


def test_segments_that_are_removed_do_not_return(disk: SimulatedDisk, log: Log) -> None:
    """A full disk: deletion frees it without recording anything."""
    begin_unrecorded(disk, log, 12)
    log.enforce_retention(1000, 15)
    assert (log.kept_start_offset, log.start_offset) == (10, 12)


def test_nothing_has_to_be_recorded_where_a_segment_begins(disk: SimulatedDisk, log: Log) -> None:
    begin_unrecorded(disk, log, 10)
    assert not log.start_is_kept
    log.enforce_retention(1000, 15)
    assert log.kept_start_offset == 10
    assert log.keep_start()
    assert log.start_is_kept


def test_a_closed_log_records_nothing(disk: SimulatedDisk, log: Log) -> None:
    begin_unrecorded(disk, log, 7)
    disk.failing.clear()
    log.close()
    assert not log.keep_start()


def test_a_log_that_restarts_begins_where_it_says(disk: SimulatedDisk, log: Log) -> None:
    begin_unrecorded(disk, log, 7)
    disk.failing.clear()
    log.restart_at(20)
    assert (log.kept_start_offset, log.start_offset) == (20, 20)
