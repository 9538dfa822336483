"""A log whose records have all left still knows the epoch of the last one."""

import pytest

from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import SMALL, append_many, open_log

EXPIRING = SMALL.but(retention_ms=50)
LATER_MS = 1 << 40


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def emptied(disk: SimulatedDisk) -> Log:
    log = open_log(disk, EXPIRING)
    append_many(log, 5, epoch=3)
    append_many(log, 5, epoch=7)
    log.enforce_retention(LATER_MS, log.end_offset)
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (10, 10, [(7, 10)])
    return log


def test_the_last_epoch_survives_a_killed_process(disk: SimulatedDisk) -> None:
    emptied(disk).sync_now()
    log = open_log(disk, EXPIRING, recovery_point=10)
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (10, 10, [(7, 10)])


def test_the_last_epoch_survives_a_clean_shutdown(disk: SimulatedDisk) -> None:
    emptied(disk).close()
    log = open_log(disk, EXPIRING, clean=True, recovery_point=10)
    assert (log.start_offset, log.end_offset, log.epochs.entries) == (10, 10, [(7, 10)])


def test_the_last_epoch_survives_where_the_file_is_older_than_the_deletion(disk: SimulatedDisk) -> None:
    log = open_log(disk, EXPIRING)
    append_many(log, 10, epoch=7)
    log.sync_now()
    log.enforce_retention(LATER_MS, log.end_offset)
    log = open_log(disk, EXPIRING, recovery_point=10)
    assert log.epochs.entries == [(7, 10)]


def test_a_later_epoch_can_be_written_behind_it(disk: SimulatedDisk) -> None:
    emptied(disk).sync_now()
    log = open_log(disk, EXPIRING, recovery_point=10)
    append_many(log, 1, epoch=8)
    assert log.epochs.entries == [(8, 10)]


def test_an_epoch_without_records_is_not_kept_behind_records(disk: SimulatedDisk) -> None:
    log = open_log(disk, EXPIRING)
    append_many(log, 10, epoch=7)
    log.epochs.assign(9, 10)
    log.close()
    log = open_log(disk, EXPIRING, recovery_point=10)
    assert log.epochs.entries == [(7, 0)]


def test_a_log_that_never_had_records_has_no_epoch(disk: SimulatedDisk) -> None:
    log = open_log(disk, EXPIRING)
    log.epochs.assign(9, 0)
    log.sync_now()
    assert open_log(disk, EXPIRING).epochs.entries == []
