"""Compaction of a log on a simulated disk: one rule per test."""

import pytest

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec, compress
from tidelog.protocol.records import ControlType, Record, append_varint, control_key, encode_batch, scan
from tidelog.sim.disk import ENOSPC, SimulatedDisk
from unit.log.compaction_model import (
    COMPACT,
    all_batches,
    all_records,
    begin,
    compact,
    latest,
    short,
    write,
    write_each,
)
from unit.log.log_model import append, open_log

ONE = COMPACT.but(segment_bytes=1 << 20)  # segments end where a test says so


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk, ONE)


class TestNewestPerKey:
    def test_older_values_go_and_nothing_else_changes(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 a2 c1 b2 a3 roll d1")
        before = {record.offset: record for record in all_records(log)}
        done = compact(disk, log, ONE)
        assert short(all_records(log)) == "3c1 4b2 5a3 6d1"
        assert all(before[record.offset] == record for record in all_records(log))
        assert (log.start_offset, log.end_offset, done.end_offset) == (0, 7, 6)
        assert (done.records_kept, done.records_dropped) == (3, 3)

    @pytest.mark.parametrize("codec", list(Codec))
    def test_inside_a_batch_in_the_codec_it_had(self, disk: SimulatedDisk, log: Log, codec: Codec) -> None:
        write(log, ("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), codec=codec)
        write(log, ("c", "2"), codec=codec)
        log.roll(1000)
        compact(disk, log, ONE)
        assert short(all_records(log)) == "1b1 2a2 4c2"
        header = all_batches(log)[0][0]
        assert (header.codec, header.base_offset, header.last_offset, header.count) == (codec, 0, 3, 2)

    def test_of_the_clean_part_what_dirty_records_supersede(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 c1 roll")
        first = compact(disk, log, ONE)
        write_each(log, "b2 d1 roll")
        compact(disk, log, ONE, clean_offset=first.end_offset)
        assert short(all_records(log)) == "0a1 2c1 3b2 4d1"

    def test_records_without_a_key_go(self, disk: SimulatedDisk, log: Log) -> None:
        write(log, (None, "x"), ("a", "1"), (None, None))
        write(log, (None, "y"))
        write(log, ("", "empty is a key"))
        log.roll(1000)
        compact(disk, log, ONE)
        assert [(record.offset, record.key) for record in all_records(log)] == [(1, b"a"), (4, b"")]

    def test_an_untouched_batch_keeps_its_very_bytes(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1")
        write(log, ("b", "1"), ("c", "1"), codec=Codec.GZIP)
        data = log.read(1, 1 << 20, 3, at_least_one_batch=True).read()
        write_each(log, "a2 roll")
        compact(disk, log, ONE)
        assert log.read(1, len(data), 3, at_least_one_batch=True).read() == data


class TestWhatIsNotTouched:
    def test_the_active_segment(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 roll a2 a3")
        compact(disk, log, ONE)
        assert short(all_records(log)) == "0a1 1a2 2a3"

    def test_a_segment_that_reaches_the_high_watermark(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll a3 a4 roll a5")
        compact(disk, log, ONE, high_watermark=3)
        assert short(all_records(log)) == "1a2 2a3 3a4 4a5"

    def test_a_segment_with_young_records_and_all_behind_it(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        write_each(log, "a3", timestamp=9_950)
        write_each(log, "roll a4 a5 roll")
        lag = ONE.but(min_compaction_lag_ms=100)
        compact(disk, log, lag, now_ms=10_000)
        assert short(all_records(log)) == "1a2 2a3 3a4 4a5"
        compact(disk, log, lag, now_ms=10_050)
        assert short(all_records(log)) == "4a5"

    def test_the_records_of_a_leader(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1")
        append(
            log, encode_batch([Record(1, 1000, control_key(ControlType.LEADER_CHANGE), b"")], control=True)
        )
        write_each(log, "b1 b2 roll")
        compact(disk, log, ONE)
        assert [record.offset for record in all_records(log)] == [0, 1, 3]
        assert all_batches(log)[1][0].is_control

    def test_a_batch_with_unreadable_records(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1")
        append(
            log,
            batches.build(
                compress(Codec.ZSTD, b"\x7f\x7f"), base_offset=1, last_offset_delta=1, count=2,
                base_timestamp=0, max_timestamp=0, attributes=int(Codec.ZSTD), leader_epoch=0,
            ),
        )  # fmt: skip
        write_each(log, "a2 roll")
        compact(disk, log, ONE)
        data = log.read(0, 1 << 20, log.end_offset, at_least_one_batch=True).read()
        assert [header.base_offset for _, header in batches.iterate(data)] == [1, 3]

    @pytest.mark.parametrize("delta", [-1, 0, 2, 1000])
    def test_a_batch_whose_records_claim_offsets_outside_it(
        self, disk: SimulatedDisk, log: Log, delta: int
    ) -> None:
        honest = encode_batch([Record(5, 0, b"a", b"1"), Record(6, 0, b"a", b"2")], leader_epoch=0)
        lying = bytearray(honest[batches.HEADER_SIZE :])
        second = next(raw for raw in scan(lying, 2) if raw.offset_delta == 1)
        number = bytearray()
        append_varint(number, delta)
        lying[second.after_timestamp : second.after_timestamp + 1] = number
        lying[second.start] += 2 * (len(number) - 1)
        header = batches.parse_header(honest)._replace(base_offset=0)
        append(log, batches.rebuild(header, lying))
        write_each(log, "a3 roll")
        compact(disk, log, ONE)
        assert [header.count for header, _ in all_batches(log)] == [2, 1]


class TestTombstones:
    def test_hide_at_once_and_stay_for_delete_retention_after_they_became_clean(
        self, disk: SimulatedDisk, log: Log
    ) -> None:
        write_each(log, "a1 b1 a- roll")
        compact(disk, log, ONE, now_ms=10_000)
        assert short(all_records(log)) == "1b1 2a-"
        assert all_batches(log)[-1][0].delete_horizon_ms == 11_000
        compact(disk, log, ONE, now_ms=10_999)
        assert short(all_records(log)) == "1b1 2a-"
        compact(disk, log, ONE, now_ms=11_000)
        assert short(all_records(log)) == "1b1"

    @pytest.mark.parametrize("codec", list(Codec))
    def test_the_horizon_changes_no_timestamp(self, disk: SimulatedDisk, log: Log, codec: Codec) -> None:
        records = write(log, ("a", "1"), ("b", None), ("c", "1"), codec=codec, timestamp=5_000)
        log.roll(1000)
        compact(disk, log, ONE)
        assert all_records(log) == records
        header = all_batches(log)[0][0]
        assert (header.base_timestamp, header.max_timestamp) == (11_000, 5_002)

    def test_the_horizon_is_set_once(self, disk: SimulatedDisk, log: Log) -> None:
        write(log, ("a", None), ("b", "1"))
        log.roll(1000)
        first = compact(disk, log, ONE, now_ms=10_000)
        write_each(log, "b2 roll")
        compact(disk, log, ONE, now_ms=10_500, clean_offset=first.end_offset)
        assert short(all_records(log)) == "0a- 2b2"
        assert all_batches(log)[0][0].delete_horizon_ms == 11_000

    def test_log_append_time_stays_the_time_of_every_record(self, disk: SimulatedDisk, log: Log) -> None:
        batch = encode_batch(
            [Record(0, 5, b"a", b"1"), Record(1, 6, b"b", None), Record(2, 7, b"a", b"2")], leader_epoch=0
        )
        batches.set_append_time(batch, 0, len(batch), 7_777)
        append(log, batch)
        log.roll(1000)
        compact(disk, log, ONE)
        assert [(record.offset, record.timestamp) for record in all_records(log)] == [(1, 7_777), (2, 7_777)]

    def test_a_value_after_a_tombstone_lives(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a- a2 roll")
        compact(disk, log, ONE)
        assert short(all_records(log)) == "2a2"

    def test_one_the_pass_has_not_reached_gets_no_horizon(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 a- roll")
        done = compact(disk, log, ONE, keys_max=2)
        assert done.end_offset == 2
        assert all_batches(log)[-1][0].delete_horizon_ms is None


class TestTraces:
    """Empty batches that stay so that offsets and sequences are not lost."""

    def test_the_end_of_the_cleaned_segment(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 roll a2 roll")
        compact(disk, log, ONE.but(segment_bytes=100))
        write_each(log, "b2 roll")
        compact(disk, log, ONE.but(segment_bytes=100), clean_offset=3)
        assert [(header.base_offset, header.count) for header, _ in all_batches(log)] == [
            (1, 0),
            (2, 1),
            (3, 1),
        ]
        reopened = open_log(disk, ONE)
        assert (short(all_records(reopened)), reopened.end_offset) == ("2a2 3b2", 4)

    def test_the_last_batch_of_a_live_producer(self, disk: SimulatedDisk, log: Log) -> None:
        for offset, producer in ((0, 7), (1, 8), (2, 7)):
            append(
                log,
                encode_batch(
                    [Record(offset, 1000, b"k", b"%d" % offset)], producer_id=producer, producer_epoch=3,
                    base_sequence=offset, leader_epoch=0,
                ),
            )  # fmt: skip
        write_each(log, "k9 roll")
        compact(disk, log, ONE, producers={7: LastWritten(2, 3), 8: LastWritten(1, 3)})
        found = [(h.producer_id, h.producer_epoch, h.base_sequence, h.count) for h, _ in all_batches(log)]
        assert found == [(8, 3, 1, 0), (7, 3, 2, 0), (-1, -1, -1, 1)]

    def test_goes_when_nobody_needs_it_any_more(self, disk: SimulatedDisk, log: Log) -> None:
        append(
            log,
            encode_batch(
                [Record(0, 1000, b"k", b"1")],
                producer_id=7,
                producer_epoch=3,
                base_sequence=0,
                leader_epoch=0,
            ),
        )
        write_each(log, "k2 roll")
        compact(disk, log, ONE, producers={7: LastWritten(0, 3)})
        assert len(all_batches(log)) == 2
        compact(disk, log, ONE)
        assert len(all_batches(log)) == 1

    def test_is_not_found_by_time(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1", timestamp=1_000)
        write_each(log, "b1", timestamp=9_000)
        write_each(log, "roll b2 roll", timestamp=2_000)
        compact(disk, log, ONE.but(segment_bytes=100))
        assert [header.count for header, _ in all_batches(log)] == [1, 0, 1]
        assert log.find_timestamp(1_500, log.end_offset) == (2_000, 2, 0)
        assert log.find_max_timestamp(log.end_offset) == (2_000, 2, 0)


class TestSegments:
    def test_small_neighbours_become_one(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, COMPACT)
        write_each(log, " ".join(f"{key}{number}" for number in range(30) for key in "ab"))
        assert len(log.segments) == 12
        size = log.size_bytes
        log.roll(1000)
        first = compact(disk, log, COMPACT)
        compact(disk, log, COMPACT, clean_offset=first.end_offset)
        assert len(log.segments) == 4
        assert log.size_bytes < size / 5
        assert latest(all_records(log)) == {b"a": b"29", b"b": b"29"}

    def test_one_from_which_nothing_goes_is_left_alone(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 roll")
        old = log.segments[0]
        done = compact(disk, log, ONE)
        assert log.segments[0] is old
        assert done.bytes_written == 0
        assert not [entry for entry in disk.list("t-0") if "cleaned" in entry.name]

    def test_old_files_are_removed_after_their_delay(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        compact(disk, log, ONE, now_ms=10_000)
        assert [entry for entry in disk.list("t-0") if entry.name.endswith(".deleted")]
        log.remove_deleted(10_000 + ONE.file_delete_delay_ms)
        assert not [entry for entry in disk.list("t-0") if entry.name.endswith(".deleted")]

    def test_every_offset_reads_as_before(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, COMPACT)
        write_each(log, " ".join(f"{'abcdefgh'[number % 8]}{number}" for number in range(100)))
        log.roll(1000)
        compact(disk, log, COMPACT)
        left = all_records(log)
        for offset in range(log.end_offset):
            data = log.read(offset, 1 << 20, log.end_offset, at_least_one_batch=True).read()
            first = batches.parse_header(data)
            assert first.last_offset >= offset
            expected = next(record.offset for record in left if record.offset >= offset)
            assert first.base_offset <= expected

    def test_older_ones_are_replaced_first_so_that_no_value_outlives_its_tombstone(
        self, disk: SimulatedDisk, log: Log
    ) -> None:
        write_each(log, "a1 b1 roll a2 b2 roll a3 b3 roll a4 b4 roll")
        compaction = begin(disk, log, ONE.but(segment_bytes=100))
        compaction.read_keys()
        order = []
        while (cleaned := compaction.clean_next()) is not None:
            order.append(cleaned.sources[0].base_offset)
            compaction.swap_in(cleaned, 10_000)
        assert order == [0, 2, 4]

    def test_times_are_those_of_the_records_that_are_left(self, disk: SimulatedDisk, log: Log) -> None:
        write(log, ("a", "1"), ("b", "1"), ("a", "2"), timestamp=5_000)
        write_each(log, "a3", timestamp=4_000)
        log.roll(1000)
        compact(disk, log, ONE)
        assert [header.max_timestamp for header, _ in all_batches(log)] == [5_001, 4_000]
        assert log.find_max_timestamp(log.end_offset) == (5_001, 1, 0)
        assert log.find_timestamp(5_002, log.end_offset) is None


class TestLimits:
    def test_a_full_map_ends_the_pass_early_and_the_next_goes_on_there(
        self, disk: SimulatedDisk, log: Log
    ) -> None:
        write_each(log, "a1 b1 a2 c1 d1 a3 b2 e1 roll")
        clean_offset = 0
        ends = []
        while clean_offset < 8:
            clean_offset = compact(disk, log, ONE, clean_offset=clean_offset, keys_max=2).end_offset
            ends.append(clean_offset)
        assert ends == [2, 4, 6, 8]
        assert short(all_records(log)) == "3c1 4d1 5a3 6b2 7e1"

    def test_a_batch_with_more_keys_than_the_limit_still_gets_through(
        self, disk: SimulatedDisk, log: Log
    ) -> None:
        write(log, *((f"k{number}", "v") for number in range(50)))
        write(log, *((f"k{number}", "w") for number in range(50)))
        log.roll(1000)
        assert compact(disk, log, ONE, keys_max=10).end_offset == 50
        assert compact(disk, log, ONE, keys_max=10, clean_offset=50).end_offset == 100
        assert set(latest(all_records(log)).values()) == {b"w"}
        assert len(all_records(log)) == 50

    def test_a_batch_larger_than_the_read_buffer(self, disk: SimulatedDisk) -> None:
        settings = ONE.but(segment_bytes=16 << 20)
        log = open_log(disk, settings)
        write(log, ("a", "x" * (3 << 20)), ("b", "1"))
        write(log, ("b", "2"))
        write(log, ("c", "y" * (2 << 20)))
        log.roll(1000)
        compact(disk, log, settings)
        assert [record.offset for record in all_records(log)] == [0, 2, 3]


class TestTheLogChangesMeanwhile:
    def test_appending_and_reading_go_on(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        compaction = begin(disk, log, ONE)
        compaction.read_keys()
        write_each(log, "a3 roll b1")
        cleaned = compaction.clean_next()
        assert cleaned is not None
        write_each(log, "b2")
        compaction.swap_in(cleaned, 10_000)
        assert compaction.clean_next() is None
        assert short(all_records(log)) == "1a2 2a3 3b1 4b2"

    def test_segments_deleted_by_retention(self, disk: SimulatedDisk) -> None:
        both = ONE.but(
            cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1, file_delete_delay_ms=0
        )
        log = open_log(disk, both)
        write_each(log, "a1 a2 roll")
        for step in range(3):
            write_each(log, "a1 a2 roll")
            compaction = begin(disk, log, both)
            with pytest.raises(CompactionAbandoned):
                if step == 0:
                    expire(log)
                compaction.read_keys()
                if step == 1:
                    expire(log)
                cleaned = compaction.clean_next()
                assert cleaned is not None
                expire(log)
                compaction.swap_in(cleaned, 10_000)
            assert not [entry for entry in disk.list("t-0") if "cleaned" in entry.name]

    def test_a_new_leader(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        compaction = begin(disk, log, ONE)
        compaction.read_keys()
        cleaned = compaction.clean_next()
        assert cleaned is not None
        log.truncate_to(1)
        write_each(log, "b7 roll", epoch=1)
        with pytest.raises(CompactionAbandoned, match="changed while it was compacted"):
            compaction.swap_in(cleaned, 10_000)
        assert short(all_records(log)) == "0a1 1b7"

    def test_a_closed_log(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        compaction = begin(disk, log, ONE)
        compaction.read_keys()
        cleaned = compaction.clean_next()
        assert cleaned is not None
        log.close()
        with pytest.raises(CompactionAbandoned):
            compaction.swap_in(cleaned, 10_000)


class TestBadDisks:
    def test_damage_is_not_copied(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        path = log.segments[0].path + ".log"
        disk.open(path).write_at(70, b"\x00")
        with pytest.raises(CorruptBatch, match=r"00000\.log, byte 0: the CRC does not match"):
            compact(disk, log, ONE)

    @pytest.mark.parametrize("step", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01"])
    def test_a_damaged_length_is_noticed(self, disk: SimulatedDisk, log: Log, step: bytes) -> None:
        write_each(log, "a1 a2 roll")
        disk.open(log.segments[0].path + ".log").write_at(8, step)
        with pytest.raises(CorruptBatch, match="claims"):
            compact(disk, log, ONE)

    def test_a_full_disk_leaves_the_log_as_it_was_and_working(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 b1 a2 roll")
        compaction = begin(disk, log, ONE)
        compaction.read_keys()
        disk.capacity_bytes = disk.used_bytes() + 50
        with pytest.raises(StorageError):
            compaction.clean_next()
        disk.capacity_bytes = None
        assert log.failure is None
        assert not [entry for entry in disk.list("t-0") if "cleaned" in entry.name]
        write_each(log, "c1")
        compact(disk, log, ONE)
        assert short(all_records(log)) == "1b1 2a2 3c1"

    def test_a_failing_swap_is_the_logs_failure(self, disk: SimulatedDisk, log: Log) -> None:
        write_each(log, "a1 a2 roll")
        compaction = begin(disk, log, ONE)
        compaction.read_keys()
        cleaned = compaction.clean_next()
        assert cleaned is not None
        for number in range(disk.operations + 1, disk.operations + 12):
            disk.fail_at(number, ENOSPC)
        with pytest.raises(StorageError):
            compaction.swap_in(cleaned, 10_000)
        assert log.failure is not None


def expire(log: Log) -> None:
    log.enforce_retention(1 << 40, log.end_offset)
    log.remove_deleted(1 << 41)
