"""What leaves the log: retention by time and size, DeleteRecords, truncation, and removal in two steps."""

import pytest

from tidelog.errors import OffsetOutOfRange
from tidelog.log.log import Log
from tidelog.sim.disk import ENOSPC, SimulatedDisk, everything
from unit.log.log_model import ONE_SEGMENT, SMALL, append, append_many, contents, make_batch, open_log

ANY = (1 << 63) - 1
FIRST = "t-0/00000000000000000000.log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def names(disk: SimulatedDisk) -> set[str]:
    return {entry.name for entry in disk.list("t-0")}


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_old_segments_go_by_their_largest_timestamp(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_ms=50))
    append_many(log, 35)  # Timestamps 1000 to 1034, ten batches per segment.
    assert log.enforce_retention(1059, 35) == []
    deleted = log.enforce_retention(1060, 35)
    assert [segment.base_offset for segment in deleted] == [0]
    assert log.start_offset == 10
    assert [base for base, _, _ in contents(log)] == list(range(10, 35))
    with pytest.raises(OffsetOutOfRange):
        log.read(9, 100, 35, at_least_one_batch=True)


def test_a_young_record_keeps_its_segment_and_all_behind_it(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_ms=50))
    append(log, make_batch(0, timestamp=5000))
    append_many(log, 34)
    assert log.enforce_retention(3000, 35) == []


def test_the_active_segment_rolls_and_goes_when_all_of_it_is_old(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_ms=50))
    append_many(log, 35)
    assert len(log.enforce_retention(9000, 35)) == 4
    assert (log.start_offset, log.end_offset, log.size_bytes) == (35, 35, 0)
    assert bases(log) == [35]
    append_many(log, 1)
    assert [base for base, _, _ in contents(log)] == [35]


def test_batches_without_timestamps_age_by_their_file(disk: SimulatedDisk) -> None:
    disk.now_ms = lambda: 7000
    log = open_log(disk, SMALL.but(retention_ms=50))
    for offset in range(25):
        append(log, make_batch(offset, timestamp=-1))
    assert log.enforce_retention(7050, 25) == []
    assert len(log.enforce_retention(7051, 25)) == 3


def damaged_log(disk: SimulatedDisk, retention_ms: int, **settings: int) -> Log:
    """35 records with timestamps from 1000 on, written at 1040. The sixth is lost, and with it all that is
    known of those behind it in their segment.
    """
    disk.now_ms = lambda: 1040
    config = SMALL.but(retention_ms=retention_ms, **settings)
    log = open_log(disk, config)
    append_many(log, 35)
    log.sync_now()
    log.close()
    size = disk.size(FIRST) // 10
    disk.lose_write(FIRST, 5 * size, size)
    for kind in ("index", "timeindex"):
        disk.remove(FIRST.replace(".log", f".{kind}"))
    return Log.open(disk, "t-0", config, clean=True, recovery_point=35, now_ms=2000)


def test_a_damaged_segment_is_as_young_as_its_records_can_be(disk: SimulatedDisk) -> None:
    log = damaged_log(disk, retention_ms=50)  # A timestamp may be 100 ms ahead.
    assert log.enforce_retention(1040 + 100 + 50, 35) == []
    assert len(log.enforce_retention(1040 + 100 + 51, 35)) == 4  # A disk does not fill for ever.


def test_a_damaged_segment_stays_if_its_records_can_have_any_timestamp(disk: SimulatedDisk) -> None:
    log = damaged_log(disk, retention_ms=50, message_timestamp_after_max_ms=ANY)
    assert log.enforce_retention(1 << 60, 35) == []


def test_a_damaged_segment_keeps_the_timestamps_before_the_damage(disk: SimulatedDisk) -> None:
    log = damaged_log(disk, retention_ms=50, message_timestamp_after_max_ms=0)
    disk.now_ms = lambda: 0
    disk.open(FIRST).write_at(0, disk.open(FIRST).read_at(0, 1))  # A clock was set back.
    assert log.enforce_retention(1004 + 50, 35) == []
    assert [segment.base_offset for segment in log.enforce_retention(1004 + 51, 35)] == [0]


def test_a_damaged_segment_goes_by_size_whatever_its_age(disk: SimulatedDisk) -> None:
    log = damaged_log(disk, retention_ms=50, message_timestamp_after_max_ms=ANY, retention_bytes=1500)
    log.enforce_retention(1000, 35)
    assert bases(log) == [20, 30]


@pytest.mark.parametrize("kinds", [("index",), ("timeindex",), ("index", "timeindex")])
def test_a_segment_goes_also_if_its_indexes_are_lost(disk: SimulatedDisk, kinds: tuple[str, ...]) -> None:
    log = open_log(disk)
    append_many(log, 35)
    log.sync_now()
    log.close()
    for kind in kinds:
        disk.remove(FIRST.replace(".log", f".{kind}"))
    log = Log.open(disk, "t-0", SMALL.but(retention_bytes=1500), clean=True, recovery_point=35, now_ms=2000)
    log.enforce_retention(1000, 35)
    assert bases(log) == [20, 30]
    log.remove_deleted(1 << 50)
    assert not any(name.endswith(".deleted") for name in names(disk))
    assert names(disk).isdisjoint(f"{0:020}.{kind}" for kind in ("log", "index", "timeindex"))


def test_the_log_is_cut_down_to_its_size(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_bytes=1500))
    append_many(log, 45)
    log.enforce_retention(1000, 45)
    assert log.size_bytes == 1500
    assert bases(log) == [30, 40]


def test_nothing_above_the_high_watermark_goes(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_ms=0, retention_bytes=0))
    append_many(log, 45)
    log.enforce_retention(1 << 50, 29)
    assert bases(log) == [20, 30, 40]
    log.enforce_retention(1 << 50, 30)
    assert bases(log) == [30, 40]


def test_compacted_topics_keep_old_segments(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"})))
    append_many(log, 45)
    assert log.enforce_retention(1 << 50, 45) == []


def test_no_limit_keeps_everything(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 45)
    assert log.enforce_retention(1 << 50, 45) == []


def test_files_are_renamed_first_and_removed_after_the_delay(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_bytes=1000, file_delete_delay_ms=60))
    append_many(log, 20)
    log.enforce_retention(1000, 20)
    gone = {f"00000000000000000000{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")}
    assert gone <= names(disk)
    log.remove_deleted(1059)
    assert gone <= names(disk)
    log.remove_deleted(1060)
    assert not gone & names(disk)


def test_deleted_files_do_not_outlive_a_crash(disk: SimulatedDisk) -> None:
    log = open_log(disk, SMALL.but(retention_bytes=1000))
    append_many(log, 20)
    log.enforce_retention(1000, 20)
    disk.crash(survive=everything, names=everything)
    log = open_log(disk)
    assert not any(name.endswith(".deleted") for name in names(disk))
    assert log.start_offset == 10


def marks(disk: SimulatedDisk) -> list[str]:
    return [entry.name for entry in disk.list("t-0") if entry.name.endswith(".start")]


class TestAdvanceStart:
    def test_records_before_it_are_gone_at_once_their_segments_with_the_next_retention(
        self, disk: SimulatedDisk
    ) -> None:
        log = open_log(disk)
        append_many(log, 35)
        log.advance_start(25)
        assert log.start_offset == 25
        with pytest.raises(OffsetOutOfRange):
            log.read(24, 100, 35, at_least_one_batch=True)
        assert bases(log) == [0, 10, 20, 30]
        log.enforce_retention(1000, 35)
        assert bases(log) == [20, 30]

    def test_it_never_goes_back_and_never_past_the_end(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 5)
        log.advance_start(3)
        log.advance_start(1)
        assert log.start_offset == 3
        with pytest.raises(OffsetOutOfRange):
            log.advance_start(6)
        log.advance_start(5)
        assert contents(log) == []

    @pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
    def test_it_is_remembered(self, disk: SimulatedDisk, clean: bool) -> None:
        log = open_log(disk)
        append_many(log, 15)
        log.advance_start(7)
        log.advance_start(12)
        if clean:
            log.close()
        disk.crash(survive=everything, names=everything)
        log = open_log(disk, clean=clean)
        assert [base for base, _, _ in contents(log)] == list(range(12, 15))

    def test_one_mark_is_left_and_none_where_a_segment_begins(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 35)
        log.advance_start(7)
        log.advance_start(25)
        log.enforce_retention(1000, 35)
        assert marks(disk) == ["00000000000000000025.start"]
        log.advance_start(30)
        log.enforce_retention(1000, 35)
        assert marks(disk) == []

    def test_a_full_disk_does_not_stand_in_the_way(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 15)
        disk.fail_at(disk.operations + 1, ENOSPC)
        log.advance_start(7)
        assert log.start_offset == 7
        assert log.failure is None

    def test_epochs_before_it_are_forgotten(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        for epoch in (1, 2, 3):
            append_many(log, 5, epoch=epoch)
        log.advance_start(7)
        assert log.epochs.entries == [(2, 7), (3, 10)]


class TestTruncate:
    @pytest.mark.parametrize("offset", range(36))
    def test_everything_from_the_offset_on_goes(self, disk: SimulatedDisk, offset: int) -> None:
        log = open_log(disk)
        append_many(log, 35)
        log.truncate_to(offset)
        assert log.end_offset == min(offset, 35)
        assert [base for base, _, _ in contents(log)] == list(range(min(offset, 35)))
        assert log.size_bytes == min(offset, 35) * 100
        append_many(log, 25)
        assert [base for base, _, _ in contents(log)] == list(range(min(offset, 35) + 25))
        log.close()
        log = open_log(disk, clean=True)
        assert [base for base, _, _ in contents(log)] == list(range(min(offset, 35) + 25))

    def test_a_batch_that_reaches_the_offset_goes_whole(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        for _ in range(5):
            append(log, make_batch(log.end_offset, count=4))
        log.truncate_to(10)
        assert log.end_offset == 8
        assert contents(log)[-1][:2] == (4, 7)

    def test_below_the_log_it_begins_anew_there(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, log_start_offset=50)
        append_many(log, 5)
        log.truncate_to(20)
        assert (log.start_offset, log.end_offset, bases(log)) == (20, 20, [20])

    def test_the_largest_timestamp_is_that_of_what_is_left(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        for offset, timestamp in enumerate([10, 70, 30, 90, 40, 20, 99, 5]):
            append(log, make_batch(offset, timestamp=timestamp))
        for end, expected in ((7, 99), (6, 90), (4, 90), (3, 70), (1, 10)):
            log.truncate_to(end)
            assert log.segments[-1].indexes.max_timestamp == expected

    def test_a_restart_counts_when_it_is_synced(self, disk: SimulatedDisk) -> None:
        """Whoever acknowledges everything before must not come back with less."""
        log = open_log(disk)
        append_many(log, 5)
        log.sync_now()
        log.restart_at(1000)
        assert (log.synced_end_offset, log.recovery_point) == (0, 0)
        disk.crash()
        log = open_log(disk)
        assert (log.start_offset, log.end_offset) == (0, 5)
        log.restart_at(1000)
        log.sync_now()
        assert (log.synced_end_offset, log.recovery_point) == (1000, 1000)
        disk.crash()
        log = open_log(disk)
        assert (log.start_offset, log.end_offset) == (1000, 1000)

    def test_restarting_elsewhere_drops_everything(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 35, epoch=3)
        log.restart_at(1000)
        assert (log.start_offset, log.end_offset, log.size_bytes) == (1000, 1000, 0)
        assert log.epochs.entries == []
        append_many(log, 2, epoch=4)
        disk.crash(survive=everything, names=everything)
        log = open_log(disk)
        assert [base for base, _, _ in contents(log)] == [1000, 1001]
