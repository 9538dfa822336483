"""Snapshots of producers: their bytes, where they are written, which of them are believed."""

from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import CorruptBatch, ErrorCode, TidelogError
from tidelog.log.log import Log
from tidelog.log.producer_format import decode, encode
from tidelog.log.producers import ProducerStates
from tidelog.protocol.batch import TIMESTAMP_TYPE_MASK, parse_header
from tidelog.protocol.markers import Marker, encode_marker
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk, everything, nothing
from unit.log.compaction_model import COMPACT, all_records, compact
from unit.log.log_model import ONE_SEGMENT, SMALL, append, append_many, make_batch, open_log, sync
from unit.log.producer_model import Sent, encoded, expected_of, header_of, history_in, known_to, write

NOW_MS = 0x0000_0123_4567_89AB


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def states_of(*sent: Sent, now_ms: int = NOW_MS) -> ProducerStates:
    states = ProducerStates("t-0")
    for each in sent:
        states.note(header_of(each), now_ms)
    return states


def restored(data: bytes) -> ProducerStates:
    states = ProducerStates("t-0")
    states.restore(*decode(data), 0)
    return states


def snapshots(disk: SimulatedDisk) -> list[int]:
    names = [entry.name for entry in disk.list("t-0")]
    return sorted(int(name.removesuffix(".snapshot")) for name in names if name.endswith(".snapshot"))


class TestBytes:
    GOLDEN = bytes.fromhex(
        "0001 da0b389d 00000001"
        "0000000000000007 0003 00000002 0000000000000066 00000002 00000123456789ab ffffffff ffffffffffffffff"
        "00000001 0000000000000007 00000002 0000000000000066 00000002 ffffffffffffffff"
    )

    def test_golden(self) -> None:
        assert encode(states_of(Sent(7, 3, 0, 3, 100))).hex(" ", 2) == self.GOLDEN.hex(" ", 2)

    def test_no_producers(self) -> None:
        body = pack(">ii", 0, 0)
        assert encode(ProducerStates("t-0")) == pack(">hI", 1, crc32c(body)) + body
        assert decode(encode(ProducerStates("t-0"))).producers == {}

    def test_written_by_kafka(self) -> None:
        """Kafka's own files end behind the first part and know one batch of each producer."""
        body = self.GOLDEN[6:56]
        found = restored(pack(">hI", 1, crc32c(body)) + body)
        assert known_to(found) == {7: [Sent(7, 3, 0, 3, 100)]}
        assert found.check(header_of(Sent(7, 3, 3, 1)), NOW_MS) is None

    def test_the_end_of_a_transaction_is_all_that_is_known(self) -> None:
        states = ProducerStates("t-0")
        marker = encode_marker(Marker(True, 12), 7, 4, offset=9, now_ms=NOW_MS)
        states.note_marker(parse_header(marker), marker, NOW_MS)
        found = restored(encode(states)).get(7)
        assert found is not None
        assert (found.epoch, found.next_sequence, found.batches) == (4, 0, [])
        assert (found.coordinator_epoch, found.coordinator_offset) == (12, -1)

    def test_late_markers_are_told_after_a_restart(self) -> None:
        states = states_of(Sent(8, 0, 0, 1, 0))
        marker = Marker(True, 12, 4711)
        batch = encode_marker(marker, 7, 4, offset=9, now_ms=NOW_MS)
        states.note_marker(parse_header(batch), batch, NOW_MS)
        for found in (states, restored(encode(states))):
            assert found.is_late(7, 4, marker)
            assert found.is_late(7, 4, marker._replace(coordinator_offset=4000))
            assert not found.is_late(7, 4, marker._replace(coordinator_offset=4712))
            assert not found.is_late(7, 4, marker._replace(coordinator_epoch=13))
            assert not found.is_late(7, 4, Marker(True, 12))
            assert not found.is_late(7, 5, marker)
            assert not found.is_late(8, 0, marker)

    def test_append_times_and_the_time_of_the_last_write_are_kept(self) -> None:
        states = states_of(Sent(8, 0, 0, 1, 0))
        stamped = header_of(Sent(7, 0, 0, 1, 1), attributes=TIMESTAMP_TYPE_MASK, timestamp=4711)
        states.note(stamped, NOW_MS)
        found = restored(encode(states))
        original = found.check(stamped, NOW_MS)
        assert original is not None
        assert original.append_time_ms == 4711
        found.expire(NOW_MS + found.expiration_ms - 1)
        assert len(found) == 2
        found.expire(NOW_MS + found.expiration_ms)
        assert len(found) == 0

    @given(
        st.lists(
            st.builds(
                Sent, producer_id=st.integers(0, 3), epoch=st.integers(0, 32767),
                sequence=st.integers(0, (1 << 31) - 1), records=st.integers(1, 1 << 20),
                base_offset=st.integers(0, 1 << 60),
            ),
            max_size=20,
        )
    )  # fmt: skip
    def test_round_trip(self, sent: list[Sent]) -> None:
        states = states_of(*sent)
        found = restored(encode(states))
        assert known_to(found) == known_to(states)
        assert {key: p.next_sequence for key, p in found} == {key: p.next_sequence for key, p in states}

    @pytest.mark.parametrize("at", range(len(GOLDEN)))
    def test_damage_is_noticed(self, at: int) -> None:
        damaged = bytearray(self.GOLDEN)
        damaged[at] ^= 0x10
        for data in (bytes(damaged), self.GOLDEN[:at]):
            with pytest.raises(CorruptBatch):
                decode(data)

    def test_counts_that_promise_too_much(self) -> None:
        for body in (pack(">i", 5), pack(">ii", 0, 5), pack(">iiqiqiq", 0, 1, 7, 0, 0, 0, -1)):
            with pytest.raises(CorruptBatch):
                decode(pack(">hI", 1, crc32c(body)) + body)


def test_written_where_a_segment_begins_and_at_the_end(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 25)  # 10 in a segment
    assert snapshots(disk) == [10, 20]
    assert log.close()
    assert snapshots(disk) == [10, 20, 25]
    log = open_log(disk, clean=True)
    append_many(log, 10)
    assert snapshots(disk) == [10, 20, 30]
    assert log.close()


def test_an_untouched_log_is_left_alone(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    write(log, Sent(7, 0, 0, 1))
    assert log.close()
    log = open_log(disk, clean=True)
    disk.story.clear()
    assert log.close()
    assert not [line for line in disk.story if "write" in line or "create" in line]


def test_a_clean_start_reads_the_snapshot_only(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    history = [write(log, Sent(n % 7, 0, n // 7, 1)) for n in range(500)]
    assert log.close()
    disk.crash(survive=nothing, names=nothing)
    disk.story.clear()
    log = open_log(disk, ONE_SEGMENT, clean=True)
    assert known_to(log.producers) == expected_of(history)
    assert sum(" read " in line for line in disk.story) < 10


def test_without_snapshots_the_whole_log_tells(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    history = [write(log, Sent(n % 3, 0, n // 3, 1)) for n in range(50)]
    assert log.close()
    for offset in snapshots(disk):
        disk.remove(f"t-0/{offset:020d}.snapshot")
    log = open_log(disk, clean=True)
    assert known_to(log.producers) == expected_of(history)
    assert log.close()
    assert snapshots(disk) == [log.end_offset]  # The next start need not read it all again.


def test_a_damaged_snapshot_is_passed_over(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    history = [write(log, Sent(7, 0, n, 1)) for n in range(25)]
    assert log.close()
    newest = f"t-0/{log.end_offset:020d}.snapshot"
    disk.open(newest).write_at(8, b"\xff")
    log = open_log(disk, clean=True)
    assert known_to(log.producers) == expected_of(history)
    assert not disk.exists(newest)


def test_a_snapshot_of_more_than_the_log_has_is_dropped(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    history = [write(log, Sent(7, 0, n, 1)) for n in range(9)]
    sync(log)
    write(log, Sent(7, 0, 9, 1))
    log.roll(1000)
    assert snapshots(disk) == [10]
    disk.crash(survive=nothing, names=everything)
    log = open_log(disk, ONE_SEGMENT, recovery_point=0)
    assert log.end_offset == 9
    assert snapshots(disk) == []
    assert known_to(log.producers) == expected_of(history)


def test_a_truncation_takes_back_what_was_learned(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    history = [write(log, Sent(n % 2, 0, n // 2, 1)) for n in range(40)]
    for offset in (33, 12, 9, 3, 0):
        log.truncate_to(offset)
        assert known_to(log.producers) == expected_of(history[:offset])
        assert all(at <= offset for at in snapshots(disk))


def test_a_truncation_without_producers_reads_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    write(log, Sent(7, 0, 0, 1))
    append_many(log, 200)
    disk.story.clear()
    log.truncate_to(150)
    assert sum(" read " in line for line in disk.story) < 10
    assert known_to(log.producers) == {7: [Sent(7, 0, 0, 1, 0)]}


def test_a_snapshot_cannot_come_back_from_before_a_truncation(disk: SimulatedDisk) -> None:
    """Its removal may be lost in a power failure; it would speak of batches that are no longer there."""
    log = open_log(disk, ONE_SEGMENT)
    for n in range(10):
        write(log, Sent(7, 0, n, 1))
    assert log.close()
    log = open_log(disk, ONE_SEGMENT, clean=True, recovery_point=10)
    log.truncate_to(5)
    for n in range(10):
        write(log, Sent(8, 0, n, 1), epoch=1)
    disk.crash(survive=everything, names=nothing)
    log = open_log(disk, ONE_SEGMENT, recovery_point=10)
    assert known_to(log.producers) == expected_of(history_in(log))
    assert 8 in known_to(log.producers)


def test_a_snapshot_does_not_outlive_the_batches_it_was_made_of(disk: SimulatedDisk) -> None:
    """A power failure undoes a truncation and everything written since, but not the snapshot of that."""
    log = open_log(disk, ONE_SEGMENT)
    for n in range(20):
        write(log, Sent(7, 0, n, 1))
    sync(log)
    log.truncate_to(5)
    for n in range(5):
        write(log, Sent(8, 0, n, 1), epoch=1)
    log.roll(1000)
    assert snapshots(disk) == [10]
    disk.crash(survive=lambda path, size: size if path.endswith(".snapshot") else 0, names=everything)
    log = open_log(disk, ONE_SEGMENT, recovery_point=0)
    assert log.end_offset == 20
    for offset in (20, 15):
        log.truncate_to(offset)
        assert known_to(log.producers) == expected_of(history_in(log))


def test_retention_keeps_what_is_known_of_deleted_records(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    history = [write(log, Sent(n // 30, 0, n % 30, 1)) for n in range(60)]
    log.config = SMALL.but(retention_bytes=0)
    log.enforce_retention(1000, log.end_offset)
    assert log.start_offset == 60
    assert snapshots(disk) == [60]
    assert known_to(log.producers) == expected_of(history)
    assert log.close()
    log = open_log(disk, clean=True)
    assert known_to(log.producers) == expected_of(history)


def test_retention_forgets_silent_producers(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    write(log, Sent(7, 0, 0, 1), now_ms=1000)
    log.enforce_retention(1000 + log.producers.expiration_ms, 0)
    assert len(log.producers) == 0


def test_starting_over_forgets_all(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    for n in range(25):
        write(log, Sent(7, 0, n, 1))
    log.restart_at(100)
    assert (known_to(log.producers), snapshots(disk)) == ({}, [])
    write(log, Sent(7, 0, 77, 1))
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, log_start_offset=100)
    assert known_to(log.producers) == {7: [Sent(7, 0, 77, 1, 100)]}


def test_a_follower_learns_what_it_copies(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    history = [Sent(n % 3, n // 9, n % 9 // 3, 2, n * 2) for n in range(30)]
    data = b"".join(bytes(encoded(sent)) for sent in history)
    log.append_batches(memoryview(data), 1000)
    assert known_to(log.producers) == expected_of(history)
    assert known_to(crashed(disk).producers) == expected_of(history)


def crashed(disk: SimulatedDisk) -> Log:
    disk.crash(survive=everything, names=everything)
    return open_log(disk)


def test_a_batch_that_could_not_be_written_is_not_known(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    write(log, Sent(7, 0, 0, 1))
    disk.fail_at(disk.operations + 1, 28)
    with pytest.raises(TidelogError) as failed:
        write(log, Sent(7, 0, 1, 1))
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert known_to(log.producers) == {7: [Sent(7, 0, 0, 1, 0)]}


def test_a_full_disk_does_not_keep_a_log_from_closing(disk: SimulatedDisk) -> None:
    log = open_log(disk, ONE_SEGMENT)
    history = [write(log, Sent(7, 0, n, 1)) for n in range(3)]
    sync(log)
    disk.capacity_bytes = disk.used_bytes()
    assert log.close()
    log = open_log(disk, ONE_SEGMENT, clean=True)
    assert known_to(log.producers) == expected_of(history)


def test_compaction_leaves_a_trace_of_each_producer(disk: SimulatedDisk) -> None:
    """Every record of producer 7 is superseded; what it sent last is known even when no snapshot is left."""
    log = open_log(disk, COMPACT)
    for n in range(12):
        record = Record(log.end_offset, 1000, b"key", b"%d" % n)
        append(log, encode_batch([record], producer_id=7 + n // 6, producer_epoch=0, base_sequence=n % 6))
    log.roll(1000)
    compact(disk, log, producers=log.producers.last_written(log.end_offset))
    assert [record.offset for record in all_records(log)] == [11]
    last = {7: Sent(7, 0, 5, 1, 5), 8: Sent(8, 0, 5, 1, 11)}
    assert {key: batches[-1] for key, batches in known_to(log.producers).items()} == last
    assert log.close()
    for offset in snapshots(disk):
        disk.remove(f"t-0/{offset:020d}.snapshot")
    log = open_log(disk, COMPACT, clean=True)
    assert {key: batches[-1] for key, batches in known_to(log.producers).items()} == last


@pytest.mark.parametrize("uncommitted", [1, 8])
def test_compaction_leaves_a_trace_that_no_truncation_removes(disk: SimulatedDisk, uncommitted: int) -> None:
    """What the producer has sent since may be truncated, and then an older batch is its last one."""
    log = open_log(disk, COMPACT)
    for n in range(3 + uncommitted):
        record = Record(log.end_offset, 1000, b"key", b"%d" % n)
        append(log, encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=n))
        if n == 2:
            append(log, encode_batch([Record(log.end_offset, 1000, b"key", b"x")]))
            log.roll(1000)
            high_watermark = log.end_offset
    producers = log.producers.last_written(high_watermark)
    compact(disk, log, high_watermark=high_watermark, producers=producers)
    log.truncate_to(high_watermark)
    assert log.close()
    for offset in snapshots(disk):
        disk.remove(f"t-0/{offset:020d}.snapshot")
    log = open_log(disk, COMPACT, clean=True)
    assert known_to(log.producers)[7][-1] == Sent(7, 0, 2, 1, 2)


def test_snapshots_of_segments_that_compaction_merged_are_removed(disk: SimulatedDisk) -> None:
    log = open_log(disk, COMPACT)
    for n in range(30):
        record = Record(log.end_offset, 1000, b"key", b"%d" % n)
        append(log, encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=n))
    log.roll(1000)
    before = snapshots(disk)
    compact(disk, log, producers=log.producers.last_written(log.end_offset))
    compact(disk, log, producers=log.producers.last_written(log.end_offset))
    assert snapshots(disk) == [segment.base_offset for segment in log.segments[1:]]
    assert len(snapshots(disk)) < len(before)


def test_batches_without_a_producer_leave_nothing(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append_many(log, 5)
    log.append_batches(memoryview(make_batch(5)), 1000)
    assert len(log.producers) == 0
