"""What is durable when: group commit, flush settings, and syncs that meet a log that has moved on."""

import threading

import pytest

from tidelog.errors import StorageError
from tidelog.sim.disk import EIO, SimulatedDisk, everything
from unit.log.log_model import ONE_SEGMENT, append_many, contents, open_log, sync


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    disk.sync_directory("")
    return disk


def test_nothing_is_durable_before_a_sync_has_finished(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    ticket = log.begin_sync()
    assert log.synced_end_offset == 0
    append_many(log, 3)
    ticket.run()
    assert log.synced_end_offset == 0
    log.finish_sync(ticket, 1000)
    assert log.synced_end_offset == 5


def test_what_a_finished_sync_covers_survives_power_loss_even_in_a_new_directory() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append_many(log, 25)
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket, 1000)
    append_many(log, 3)
    disk.crash()
    assert open_log(disk).end_offset == 25


def test_flush_messages_and_flush_ms_say_when_a_sync_is_due(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT.but(flush_messages=4, flush_ms=100), now_ms=1000)
    sync(log, 1000)
    assert not log.sync_due(5000)  # Nothing to sync.
    append_many(log, 3)
    assert not log.sync_due(1099)
    assert log.sync_due(1100)
    append_many(log, 1)
    assert log.sync_due(1001)
    sync(log, 1050)
    assert not log.sync_due(1060)
    append_many(log, 1)
    assert not log.sync_due(1149)
    assert log.sync_due(1150)


def test_rolling_makes_a_sync_due(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 10)
    sync(log)
    assert not log.sync_due(1 << 40)
    append_many(log, 1)
    assert log.sync_due(1001)
    sync(log)
    assert not log.sync_due(1001)


def test_syncs_are_safe_while_the_log_rolls(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 8)
    ticket = log.begin_sync()
    append_many(log, 30)
    ticket.run()
    log.finish_sync(ticket, 1000)
    assert log.synced_end_offset == 8
    sync(log)
    assert (log.synced_end_offset, log.recovery_point) == (38, 38)
    disk.crash()
    assert open_log(disk, recovery_point=38).end_offset == 38


def test_overlapping_syncs_promise_only_what_each_has_covered(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 15)
    first = log.begin_sync()
    append_many(log, 15)
    second = log.begin_sync()
    second.run()
    log.finish_sync(second, 1000)
    assert log.synced_end_offset == 30
    first.run()
    log.finish_sync(first, 1000)
    assert log.synced_end_offset == 30
    disk.crash()
    assert open_log(disk).end_offset == 30


def test_a_truncation_takes_back_what_a_running_sync_would_promise(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 15)
    ticket = log.begin_sync()
    ticket.run()
    log.truncate_to(6)
    append_many(log, 20, epoch=1)
    log.finish_sync(ticket, 1000)
    assert log.synced_end_offset == 6


def test_a_log_may_close_while_a_sync_runs(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 15)
    ticket = log.begin_sync()
    assert log.close()
    ticket.run()
    log.finish_sync(ticket, 1000)
    disk.crash()
    log = open_log(disk, clean=True)
    assert log.end_offset == 15
    assert log.epochs.entries == [(0, 0)]


def test_the_epochs_of_a_running_sync_do_not_replace_newer_ones(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 3, epoch=1)
    first = log.begin_sync()
    append_many(log, 3, epoch=2)
    second = log.begin_sync()
    for ticket in (second, first):
        ticket.run()
        log.finish_sync(ticket, 1000)
    sync(log)
    disk.crash()
    assert open_log(disk, recovery_point=6).epochs.entries == [(1, 0), (2, 3)]


def test_the_recovery_point_waits_for_the_epoch_file(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket, 1000)
    assert (log.synced_end_offset, log.recovery_point) == (5, 0)
    assert log.sync_due(1001)
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket, 1000)
    assert log.recovery_point == 5


def test_a_failed_sync_fails_the_log_and_is_never_made_good_by_another(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    ticket = log.begin_sync()
    disk.fail_at(disk.operations + 1, EIO)
    ticket.run()
    with pytest.raises(StorageError):
        log.finish_sync(ticket, 1000)
    assert log.synced_end_offset == 0
    assert log.failure is not None
    with pytest.raises(StorageError):
        log.begin_sync()
    with pytest.raises(StorageError):
        append_many(log, 1)
    assert len(contents(log)) == 5
    assert not log.close()


def test_a_sync_begun_before_another_failed_promises_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    first, second = log.begin_sync(), log.begin_sync()
    disk.fail_at(disk.operations + 1, EIO)
    first.run()
    second.run()
    with pytest.raises(StorageError):
        log.finish_sync(first, 1000)
    with pytest.raises(StorageError):
        log.finish_sync(second, 1000)
    assert log.synced_end_offset == 0


def test_after_recovery_only_the_recovery_point_counts_as_durable(disk: SimulatedDisk) -> None:
    """A killed process left its bytes in the page cache: readable, but not on disk yet."""
    log = open_log(disk)
    append_many(log, 25)
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, recovery_point=12)
    assert (log.end_offset, log.synced_end_offset) == (25, 12)
    assert log.sync_due(1000)
    sync(log)
    assert log.synced_end_offset == 25


def test_tickets_run_in_another_thread(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    for round_number in range(1, 20):
        append_many(log, 7)
        ticket = log.begin_sync()
        thread = threading.Thread(target=ticket.run)
        thread.start()
        thread.join()
        log.finish_sync(ticket, 1000)
        assert log.synced_end_offset == round_number * 7


def test_a_sync_does_not_rely_on_names_that_another_one_has_yet_to_sync() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    append_many(log, 5)
    log.begin_sync()  # Still waiting for its thread.
    append_many(log, 5)
    log.sync_now()
    assert log.synced_end_offset == 10
    disk.crash()
    assert open_log(disk).end_offset == 10


def test_a_sync_that_failed_while_the_log_closes_is_not_forgotten(disk: SimulatedDisk) -> None:
    """The system tells of an error once: the next sync of the same file succeeds."""
    log = open_log(disk)
    append_many(log, 5)
    ticket = log.begin_sync()
    disk.fail_at(disk.operations + 1, EIO)
    ticket.run()  # In its thread; its outcome was not taken yet when the broker closed.
    assert not log.close()


def test_names_that_a_running_sync_has_taken_on_are_not_on_disk_yet(disk: SimulatedDisk) -> None:
    """A roll that must be durable first waits for them, too."""
    log = open_log(disk)
    append_many(log, 5)
    sync(log)
    log.checkpointed_recovery_point = log.recovery_point
    log.advance_start(3)  # A new name beside the segments.
    log.begin_sync()  # Still waiting for its thread.
    assert log.needs_sync
    log.roll(1000)
    disk.crash()
    assert disk.exists("t-0/00000000000000000003.start")


def test_a_log_that_closes_beside_a_running_sync_syncs_its_names(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    sync(log)
    log.advance_start(3)
    log.begin_sync()
    assert log.close()
    disk.crash()
    assert disk.exists("t-0/00000000000000000003.start")
