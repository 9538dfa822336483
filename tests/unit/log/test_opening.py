"""Opening after an unclean stop: whatever the files look like, the log ends behind the last whole batch."""

import logging

import pytest

from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk, everything, nothing
from unit.log.log_model import ONE_SEGMENT, SMALL, append, append_many, contents, make_batch, open_log, sync

FIRST = "t-0/00000000000000000000"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def kill(disk: SimulatedDisk) -> None:
    disk.crash(survive=everything, names=everything)


def write_raw(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)


def read_raw(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read_at(0, file.size())


def bases(log: Log) -> list[int]:
    return [base for base, _, _ in contents(log)]


def check_indexes(log: Log) -> None:
    """Every entry of every index points at what the log has."""
    for segment in log.segments:
        data = segment.region().read()
        found = dict(batches.iterate(data))
        for number in range(segment.indexes.offsets.count):
            last_offset, position = segment.indexes.offsets.entry(number)
            assert found[position].last_offset == last_offset
        largest = {header.last_offset: header.max_timestamp for header in found.values()}
        for number in range(segment.indexes.times.count):
            timestamp, offset = segment.indexes.times.entry(number)
            assert largest[offset] == timestamp


def test_a_killed_process_loses_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 57, epoch=3)
    kill(disk)
    log = open_log(disk)
    assert bases(log) == list(range(57))
    assert log.epochs.entries == [(3, 0)]
    check_indexes(log)


def test_the_tail_torn_at_every_byte_is_cut_at_the_last_whole_batch() -> None:
    for torn_at in range(100):
        disk = SimulatedDisk()
        log = open_log(disk, ONE_SEGMENT)
        append_many(log, 7)
        whole = read_raw(disk, FIRST + ".log")
        kill(disk)
        write_raw(disk, FIRST + ".log", whole[: 600 + torn_at])
        log = open_log(disk, ONE_SEGMENT)
        assert log.end_offset == 6
        assert read_raw(disk, FIRST + ".log") == whole[:600]
        check_indexes(log)
        append_many(log, 2)
        assert bases(log) == list(range(8))


def test_one_changed_byte_anywhere_ends_the_log_there() -> None:
    for damaged in range(300, 400):
        disk = SimulatedDisk()
        log = open_log(disk, ONE_SEGMENT)
        append_many(log, 7)
        whole = bytearray(read_raw(disk, FIRST + ".log"))
        whole[damaged] ^= 0x10
        kill(disk)
        write_raw(disk, FIRST + ".log", bytes(whole))
        log = open_log(disk, ONE_SEGMENT)
        if 312 <= damaged < 316 or 300 <= damaged < 308:
            continue  # The leader epoch and the base offset are not under the CRC.
        assert log.end_offset == 3, damaged
        assert bases(log) == [0, 1, 2]


def test_a_base_offset_that_goes_back_ends_the_log(disk: SimulatedDisk) -> None:
    write_raw_log(disk, [0, 1, 2, 1, 4])
    assert bases(open_log(disk)) == [0, 1, 2]


def test_an_older_leader_epoch_behind_a_newer_one_is_a_leftover_and_goes(disk: SimulatedDisk) -> None:
    disk.make_directory("t-0")
    data = b"".join(bytes(make_batch(n, epoch=e)) for n, e in enumerate([1, 4, 4, 3, 3]))
    write_raw(disk, FIRST + ".log", data)
    log = open_log(disk)
    assert bases(log) == [0, 1, 2]
    assert log.epochs.entries == [(1, 0), (4, 1)]


def write_raw_log(disk: SimulatedDisk, offsets: list[int]) -> None:
    disk.make_directory("t-0")
    write_raw(disk, FIRST + ".log", b"".join(bytes(make_batch(offset)) for offset in offsets))


def test_what_was_cut_is_said(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    append_many(open_log(disk, ONE_SEGMENT), 3)
    kill(disk)
    write_raw(disk, FIRST + ".log", read_raw(disk, FIRST + ".log")[:250])
    with caplog.at_level(logging.WARNING):
        open_log(disk, ONE_SEGMENT)
    assert "truncated 50 bytes after offset 2" in caplog.text


def test_everything_behind_a_cut_segment_goes(disk: SimulatedDisk) -> None:
    append_many(open_log(disk), 45)
    kill(disk)
    path = "t-0/00000000000000000020.log"
    write_raw(disk, path, read_raw(disk, path)[:555])
    log = open_log(disk)
    assert bases(log) == list(range(25))
    assert {entry.name[:20] for entry in disk.list("t-0") if entry.name.endswith(".log")} == {
        f"{base:020d}" for base in (0, 10, 20)
    }


@pytest.mark.parametrize("left_bytes", [0, 100, 900])
def test_a_segment_that_lost_whole_batches_takes_what_follows_along(
    disk: SimulatedDisk, left_bytes: int
) -> None:
    """The file ends exactly between two batches: only the next segment's name tells that some are missing."""
    append_many(open_log(disk), 35)
    kill(disk)
    path = "t-0/00000000000000000010.log"
    write_raw(disk, path, read_raw(disk, path)[:left_bytes])
    assert bases(open_log(disk)) == list(range(10 + left_bytes // 100))


def test_segments_before_the_recovery_point_are_not_read(disk: SimulatedDisk) -> None:
    append_many(open_log(disk), 45)
    kill(disk)
    disk.story.clear()
    log = open_log(disk, recovery_point=35)
    read = {line.split()[2] for line in disk.story if " read " in line}
    assert {path for path in read if path.endswith(".log")} == {
        "t-0/00000000000000000030.log",
        "t-0/00000000000000000040.log",
    }
    assert bases(log) == list(range(45))


def test_a_clean_shutdown_needs_no_scan(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 500, epoch=2)
    assert log.close()
    disk.crash(survive=nothing, names=nothing)  # Closing made all of it durable.
    disk.story.clear()
    log = open_log(disk, ONE_SEGMENT, clean=True)
    assert log.end_offset == 500
    assert log.epochs.entries == [(2, 0)]
    assert sum(" read " in line for line in disk.story) < 10
    assert (log.synced_end_offset, log.recovery_point) == (500, 500)
    assert bases(log) == list(range(500))
    check_indexes(log)


def test_index_files_are_cut_to_their_entries_when_closed(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 25)
    log.close()
    for segment in log.segments:
        assert len(read_raw(disk, segment.path + ".index")) == segment.indexes.offsets.count * 8
        assert len(read_raw(disk, segment.path + ".timeindex")) == segment.indexes.times.count * 12
    assert log.segments[0].indexes.offsets.count > 0


def test_closing_cleanly_and_then_losing_the_tail_is_noticed(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 20)
    log.close()
    write_raw(disk, FIRST + ".log", read_raw(disk, FIRST + ".log")[:-1])
    log = open_log(disk, ONE_SEGMENT, clean=True)
    assert bases(log) == list(range(19))
    assert "not closed cleanly" in caplog.text


class TestIndexes:
    """Log and indexes that do not belong together, after a crash and after a clean shutdown."""

    @pytest.fixture(params=["killed", "closed"])
    def log_files(self, request: pytest.FixtureRequest, disk: SimulatedDisk) -> bool:
        log = open_log(disk)
        append_many(log, 27)
        if request.param == "closed":
            log.close()
        else:
            kill(disk)
        return bool(request.param == "closed")

    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    @pytest.mark.parametrize("base", [0, 20])
    @pytest.mark.parametrize("damage", ["missing", "empty", "short", "zeros", "ahead", "garbage"])
    def test_any_damage_is_repaired(
        self, disk: SimulatedDisk, log_files: bool, suffix: str, base: int, damage: str
    ) -> None:
        path = f"t-0/{base:020d}{suffix}"
        data = read_raw(disk, path)
        entry = 8 if suffix == ".index" else 12
        if damage == "missing":
            disk.remove(path)
        elif damage == "empty":
            write_raw(disk, path, b"")
        elif damage == "short":
            write_raw(disk, path, data[: entry + 3])
        elif damage == "zeros":
            write_raw(disk, path, data + bytes(entry * 40))
        elif damage == "ahead" and suffix == ".index":
            write_raw(disk, path, data + (900).to_bytes(4, "big") + (90_000).to_bytes(4, "big"))
        elif damage == "ahead":
            write_raw(disk, path, data + bytes(8) + (900).to_bytes(4, "big"))
        else:
            write_raw(disk, path, b"\xa5" * 61)
        log = open_log(disk, clean=log_files)
        assert bases(log) == list(range(27))
        for offset in range(27):
            header = batches.parse_header(log.read(offset, 1, 27, at_least_one_batch=True).read())
            assert header.base_offset == offset
        append_many(log, 20)
        assert bases(log) == list(range(47))

    def test_log_ahead_of_its_indexes(self, disk: SimulatedDisk) -> None:
        """The batches reached the disk, the mapped index pages did not."""
        log = open_log(disk)
        append_many(log, 27)
        disk.crash(survive=lambda path, n: n if path.endswith(".log") else 0, names=everything)
        log = open_log(disk)
        assert bases(log) == list(range(27))
        check_indexes(log)

    def test_indexes_ahead_of_their_log(self, disk: SimulatedDisk) -> None:
        """The mapped index pages reached the disk, the newest batches did not."""
        log = open_log(disk)
        append_many(log, 9)
        disk.crash(survive=lambda path, n: 450 if path.endswith(".log") else n, names=everything)
        log = open_log(disk)
        assert bases(log) == [0, 1, 2, 3]
        check_indexes(log)

    def test_an_index_whose_log_is_gone_is_removed(self, disk: SimulatedDisk) -> None:
        append_many(open_log(disk), 5)
        kill(disk)
        write_raw(disk, "t-0/00000000000000000099.index", b"12345678")
        write_raw(disk, "t-0/00000000000000000099.timeindex", b"123456789012")
        open_log(disk)
        assert not any(entry.name.startswith("00000000000000000099") for entry in disk.list("t-0"))


class TestEpochs:
    def test_a_damaged_epoch_file_is_read_again_from_the_batches(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        for epoch in (1, 1, 2, 5):
            append_many(log, 8, epoch=epoch)
        log.close()
        for damaged in (b"", b"0\n9\n1 0\n", b"hello", b"\x00" * 30, b"0\n2\n5 0\n1 3\n"):
            write_raw(disk, "t-0/leader-epoch-checkpoint", damaged)
            log = open_log(disk, clean=True)
            assert log.epochs.entries == [(1, 0), (2, 16), (5, 24)]
            log.close()

    def test_a_damaged_epoch_file_does_not_keep_a_torn_log_closed(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 12, epoch=1)
        append_many(log, 3, epoch=2)
        log.close()
        path = "t-0/00000000000000000010.log"
        write_raw(disk, path, read_raw(disk, path)[:150])
        write_raw(disk, "t-0/leader-epoch-checkpoint", b"hello")
        log = open_log(disk)
        assert log.end_offset == 11
        assert log.epochs.entries == [(1, 0)]

    def test_epochs_behind_the_end_of_the_log_are_forgotten(self, disk: SimulatedDisk) -> None:
        log = open_log(disk)
        append_many(log, 12, epoch=1)
        append_many(log, 3, epoch=2)
        log.close()
        path = "t-0/00000000000000000010.log"
        write_raw(disk, path, read_raw(disk, path)[:150])
        log = open_log(disk)
        assert log.end_offset == 11
        assert log.epochs.entries == [(1, 0)]

    def test_epochs_that_a_truncation_undid_do_not_come_back(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        append_many(log, 8, epoch=1)
        append_many(log, 8, epoch=3)
        log.close()
        log = open_log(disk, ONE_SEGMENT, clean=True)
        log.truncate_to(5)
        append_many(log, 20, epoch=4)
        kill(disk)  # The epoch file still knows epoch 3.
        log = open_log(disk, ONE_SEGMENT, recovery_point=16)
        assert log.epochs.entries == [(1, 0), (4, 5)]


def test_a_preallocated_tail_is_cut(disk: SimulatedDisk) -> None:
    settings = SMALL.but(preallocate=True)
    log = open_log(disk, settings)
    append_many(log, 13)
    assert len(read_raw(disk, "t-0/00000000000000000010.log")) == 1000
    kill(disk)
    log = open_log(disk, settings)
    assert bases(log) == list(range(13))
    assert log.size_bytes == 1300
    append_many(log, 1)
    log.close()
    assert len(read_raw(disk, "t-0/00000000000000000010.log")) == 400


def test_a_log_that_ends_before_its_start_begins_anew_there(disk: SimulatedDisk) -> None:
    append_many(open_log(disk), 12)
    kill(disk)
    log = open_log(disk, log_start_offset=40)
    assert (log.start_offset, log.end_offset) == (40, 40)
    append_many(log, 2)
    assert bases(log) == [40, 41]


def test_files_that_are_no_part_of_the_log_are_left_alone(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 3)
    for name in ("partition.metadata", "notes.log", "0.log", "leader-epoch-checkpoint"):
        if name != "leader-epoch-checkpoint":
            write_raw(disk, f"t-0/{name}", b"mine")
    kill(disk)
    log = open_log(disk)
    assert bases(log) == [0, 1, 2]
    assert read_raw(disk, "t-0/notes.log") == b"mine"


def test_a_batch_larger_than_the_scan_reads_at_once(disk: SimulatedDisk) -> None:
    settings = ONE_SEGMENT.but(segment_bytes=1 << 26)
    log = open_log(disk, settings)
    for size in (10, 1 << 20, 100, 3 << 20, (1 << 20) - 61, 7):
        append(log, make_batch(log.end_offset, b"z" * size))
    kill(disk)
    assert bases(open_log(disk, settings)) == list(range(6))
    kill(disk)
    path = FIRST + ".log"
    write_raw(disk, path, read_raw(disk, path)[: 10 + 61 + (1 << 20) + 61 + 100 + 61 + (2 << 20)])
    assert bases(open_log(disk, settings)) == list(range(3))


def test_a_truncation_into_a_gap_leaves_no_hole_for_recovery_to_fall_into(disk: SimulatedDisk) -> None:
    """Found by test_log_properties: the next segment began behind the gap and was taken for a leftover."""
    log = open_log(disk)
    log.append_batches(memoryview(b"".join(bytes(make_batch(offset)) for offset in (0, 1, 5))), 1000)
    log.truncate_to(4)
    assert log.end_offset == 2
    log.roll(1000)
    append_many(log, 2)
    kill(disk)
    assert bases(open_log(disk)) == [0, 1, 2, 3]


@pytest.mark.parametrize("touch", ["recovery", "truncation", "roll"])
def test_a_log_that_was_not_appended_to_is_closed_in_good_order(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture, touch: str
) -> None:
    """Whatever made the indexes longer than their entries, closing cuts them."""
    log = open_log(disk)
    append_many(log, 25)
    assert log.close()
    open_log(disk, clean=True)
    kill(disk)
    log = open_log(disk, recovery_point=25)
    if touch == "truncation":
        log.truncate_to(23)
    elif touch == "roll":
        log.roll(1000)
    sync(log)
    end_offset = log.end_offset
    assert log.close()
    caplog.clear()
    log = open_log(disk, clean=True)
    assert caplog.messages == []
    assert [base for base, _, _ in contents(log)] == list(range(end_offset))
