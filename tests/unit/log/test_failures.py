"""A full or failing disk: writes are refused, nothing false is acknowledged, reads go on."""

from collections.abc import Callable

import pytest

from tidelog.errors import ErrorCode, StorageError
from tidelog.sim.disk import EIO, ENOSPC, SimulatedDisk, everything
from unit.log.log_model import ONE_SEGMENT, SMALL, append, append_many, contents, make_batch, open_log, sync


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.mark.parametrize("torn_at", [0, 1, 50, 99])
@pytest.mark.parametrize("error", [ENOSPC, EIO])
def test_a_refused_write_leaves_nothing_behind(disk: SimulatedDisk, error: int, torn_at: int) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    disk.fail_at(disk.operations + 1, error, torn_at)
    with pytest.raises(StorageError) as refused:
        append(log, make_batch(5))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.size_bytes) == (5, 500)
    assert disk.open("t-0/00000000000000000000.log").size() == 500
    with pytest.raises(StorageError):
        append(log, make_batch(5))
    assert [base for base, _, _ in contents(log)] == [0, 1, 2, 3, 4]
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 1)
    assert len(contents(log)) == 6


def test_torn_bytes_that_cannot_be_cut_off_are_cut_by_recovery(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    disk.fail_at(disk.operations + 1, EIO, 70)
    disk.fail_at(disk.operations + 2, EIO)
    with pytest.raises(StorageError):
        append(log, make_batch(5))
    assert len(contents(log)) == 5
    disk.crash(survive=everything, names=everything)
    assert open_log(disk, ONE_SEGMENT).end_offset == 5


def test_every_operation_of_an_append_may_fail(disk: SimulatedDisk) -> None:
    """Wherever it fails, rolling included: what was acknowledged is there, what was refused is not."""
    for number in range(1, 120):
        disk = SimulatedDisk()
        log = open_log(disk)
        disk.fail_at(disk.operations + number, ENOSPC)
        acknowledged = 0
        with pytest.raises(StorageError):
            while True:
                append_many(log, 1)
                acknowledged += 1
        assert log.failure is not None
        assert len(contents(log)) == log.end_offset == acknowledged
        assert not log.close()
        disk.crash(survive=everything, names=everything)
        reopened = open_log(disk)
        assert len(contents(reopened)) == acknowledged
        append_many(reopened, 12)


def test_every_operation_of_a_truncation_may_fail() -> None:
    for number in range(1, 40):
        disk = SimulatedDisk()
        log = open_log(disk)
        append_many(log, 35)
        disk.fail_at(disk.operations + number, EIO)
        try:
            log.truncate_to(13)
        except StorageError:
            assert log.failure is not None
            assert log.synced_end_offset <= 13
        disk.crash(survive=everything, names=everything)
        reopened = open_log(disk)
        assert [base for base, _, _ in contents(reopened)] == list(range(reopened.end_offset))
        assert 13 <= reopened.end_offset <= 35


def test_a_full_disk_refuses_writes_and_retention_still_frees_space(disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 30_000
    settings = SMALL.but(retention_bytes=2000, segment_index_bytes=1200)
    log = open_log(disk, settings)
    with pytest.raises(StorageError):
        append_many(log, 1000)
    count = log.end_offset
    assert 100 < count < 300
    assert len(contents(log)) == count
    used = disk.used_bytes()
    deleted = log.enforce_retention(1000, count)
    assert deleted
    log.remove_deleted(1 << 60)
    assert disk.used_bytes() < used
    assert contents(log)[-1][0] == count - 1
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, settings)
    assert log.end_offset == count
    append_many(log, 5)


def test_an_index_that_cannot_grow_fails_the_next_append_not_this_one(disk: SimulatedDisk) -> None:
    settings = ONE_SEGMENT.but(index_interval_bytes=150)
    log = open_log(disk, settings)
    append_many(log, 2)
    disk.fail_at(disk.operations + 2, ENOSPC)  # The write of the batch succeeds, mapping the index does not.
    append_many(log, 1)
    assert log.failure is not None
    assert log.end_offset == 3
    assert len(contents(log)) == 3
    with pytest.raises(StorageError):
        append_many(log, 1)


def test_a_failing_read_is_refused_and_fails_nothing_else(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 25)
    disk.fail_at(disk.operations + 1, EIO)
    with pytest.raises(StorageError):
        log.read(3, 100, 25, at_least_one_batch=True)
    assert log.failure is None
    assert len(contents(log)) == 25
    append_many(log, 1)


def test_a_directory_that_cannot_be_opened_is_a_storage_error(disk: SimulatedDisk) -> None:
    disk.fail_at(1, EIO)
    with pytest.raises(StorageError):
        open_log(disk)


def test_truncating_and_rolling_a_failed_log_is_refused(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    disk.fail_at(disk.operations + 1, EIO)
    with pytest.raises(StorageError):
        append_many(log, 1)
    actions: list[Callable[[], object]] = [
        lambda: log.truncate_to(2),
        lambda: log.roll(1),
        lambda: log.restart_at(9),
    ]
    for action in actions:
        with pytest.raises(StorageError):
            action()
    assert len(contents(log)) == 5


def test_a_sync_that_fails_while_rolling_fails_the_log_for_good(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT.but(segment_ms=50))
    for timestamp in (1000, 1040):
        append(log, make_batch(log.end_offset, timestamp=timestamp))
    sync(log)
    append(log, make_batch(2, timestamp=1041))  # Not synced yet.
    log.checkpointed_recovery_point = 10  # As after a truncation: rolling must sync first.
    disk.fail_at(disk.operations + 2, EIO)  # Behind the read that tells the segment's age.
    with pytest.raises(StorageError, match="sync"):
        append(log, make_batch(3, timestamp=2000))
    with pytest.raises(StorageError):
        append(log, make_batch(3, timestamp=1000))  # Would not have needed to roll.
    assert (log.end_offset, log.synced_end_offset) == (3, 2)


def test_only_a_failed_sync_may_lose_what_was_written(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    disk.failing["write"] = EIO
    with pytest.raises(StorageError):
        append_many(log, 1)
    assert log.failure is not None
    assert not log.sync_failed


def test_a_log_remembers_that_a_sync_has_failed(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    disk.failing["sync"] = EIO
    with pytest.raises(StorageError):
        sync(log)
    assert log.sync_failed


def test_a_sync_that_failed_in_its_thread_counts_before_its_result_is_applied(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    disk.failing["sync"] = EIO
    log.begin_sync().run()
    log.close()
    assert log.sync_failed
