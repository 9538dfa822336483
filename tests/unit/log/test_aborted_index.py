"""The index of aborted transactions: its bytes, its look-ups, and what recovery makes of it."""

from collections.abc import Callable
from contextlib import suppress
from errno import EIO

import pytest

from tidelog.errors import StorageError
from tidelog.log.aborted_index import ENTRY_SIZE, AbortedIndex, AbortedTransaction
from tidelog.log.handles import HandleCache
from tidelog.log.log import Log
from tidelog.log.open_transactions import ENDED_MAX, OpenTransactions
from tidelog.log.producer_format import decode, encode
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import parse_header
from tidelog.protocol.markers import Marker, decode_marker, encode_marker
from tidelog.protocol.records import (
    ControlType,
    Record,
    append_record,
    control_key,
    decode_batch,
    encode_batch,
)
from tidelog.sim.disk import PowerLoss, SimulatedDisk, SimulatedFile, everything
from unit.log.log_model import ONE_SEGMENT, SMALL, Settings, open_log, sync
from unit.log.transaction_model import write

PATH = "t-0/00000000000000000000.txnindex"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def keep(count_max: int) -> Callable[[str, int], int]:
    """What a power failure leaves of unsynced changes."""
    return lambda path, count: min(count, count_max)


def files(disk: SimulatedDisk, suffix: str) -> list[str]:
    return sorted(entry.name for entry in disk.list("t-0") if entry.name.endswith(suffix))


class TestFile:
    def index(self, disk: SimulatedDisk) -> AbortedIndex:
        disk.make_directory("t-0")
        return AbortedIndex(disk, HandleCache(), PATH, 0, None)

    def test_golden(self, disk: SimulatedDisk) -> None:
        index = self.index(disk)
        index.append(AbortedTransaction(7, 100, 0x123456789A, 99))
        golden = "9040 0000000000000007 0000000000000064 000000123456789a 0000000000000063"
        assert disk.open(PATH).read_at(0, 1000) == bytes.fromhex(golden)
        assert (len(index), ENTRY_SIZE) == (1, 34)

    def test_no_file_until_something_is_aborted(self, disk: SimulatedDisk) -> None:
        index = self.index(disk)
        assert index.find(0, 1000) == ([], False)
        index.truncate(0)
        assert not disk.exists(PATH)

    def test_only_what_overlaps_is_found(self, disk: SimulatedDisk) -> None:
        index = self.index(disk)
        first, second, third = (
            AbortedTransaction(1, 0, 9, 5),
            AbortedTransaction(2, 5, 19, 20),
            AbortedTransaction(3, 25, 29, 30),
        )
        for each in (first, second, third):
            index.append(each)
        assert index.find(0, 5) == ([first], True)
        assert index.find(0, 6) == ([first, second], True)
        assert index.find(10, 20) == ([second], True)
        assert index.find(20, 25) == ([], True)
        assert index.find(20, 31) == ([third], False)
        assert index.find(30, 40) == ([], False)

    def test_what_cannot_be_written_is_found(self, disk: SimulatedDisk) -> None:
        index = self.index(disk)
        first, second, third = (
            AbortedTransaction(1, 0, 9, 5),
            AbortedTransaction(2, 5, 19, 20),
            AbortedTransaction(3, 25, 29, 30),
        )
        index.append(first)
        disk.failing["write"] = EIO
        with pytest.raises(OSError, match="write"):
            index.append(second)
        disk.failing.clear()
        index.append(third)  # Behind the other, or the file would have a gap.
        assert index.find(0, 40) == ([first, second, third], False)
        assert index.find(10, 25) == ([second], False)
        assert disk.open(PATH).size() == ENTRY_SIZE
        index.truncate(20)
        assert index.find(0, 40) == ([first, second], False)
        index.truncate(0)
        assert index.is_empty

    @pytest.mark.parametrize("operation", ["create", "write"])
    def test_readers_skip_a_transaction_whose_entry_cannot_be_written(
        self, disk: SimulatedDisk, operation: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        original = AbortedIndex.append

        def append(index: AbortedIndex, aborted: AbortedTransaction) -> None:
            disk.failing[operation] = EIO
            original(index, aborted)

        with monkeypatch.context() as patch:
            patch.setattr(AbortedIndex, "append", append)
            write(log, 7, "abort")
        assert log.failure is not None
        assert log.last_stable_offset(log.end_offset) == log.end_offset
        before = log.aborted_transactions(0, log.end_offset)
        assert [first_offset for _, first_offset in before] == [0]
        assert log.aborted_in(0, 1000, log.end_offset) == before
        disk.failing.clear()
        assert open_log(disk, ONE_SEGMENT).aborted_transactions(0, log.end_offset) == before

    def test_thousands_are_read_in_pieces(self, disk: SimulatedDisk) -> None:
        index = self.index(disk)
        entries = [AbortedTransaction(n, 10 * n, 10 * n + 9, 10 * n + 10) for n in range(2000)]
        for each in entries:
            index.append(each)
        assert index.find(0, 20_000)[0] == entries
        assert index.find(10_005, 10_011)[0] == entries[1000:1002]

    @pytest.mark.parametrize(("end_offset", "left"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2)])
    def test_truncation(self, disk: SimulatedDisk, end_offset: int, left: int) -> None:
        index = self.index(disk)
        index.append(AbortedTransaction(1, 0, 9, 5))
        index.append(AbortedTransaction(2, 5, 19, 20))
        index.truncate(end_offset)
        assert (len(index), disk.open(PATH).size()) == (left, left * ENTRY_SIZE)


class TestMarkers:
    @pytest.mark.parametrize("commits", [True, False])
    def test_there_and_back(self, commits: bool) -> None:
        batch = encode_marker(Marker(commits, 5), 7, 3, offset=12, now_ms=1000)
        header = parse_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
        assert (header.is_control, header.is_transactional, header.count) == (True, True, 1)
        assert decode_marker(batch, header) == Marker(commits, 5)

    def test_with_the_place_in_the_coordinators_log(self) -> None:
        marker = Marker(True, 5, 1 << 40)
        batch = encode_marker(marker, 7, 3, offset=12, now_ms=1000)
        assert decode_marker(batch, parse_header(batch)) == marker
        value = bytes.fromhex("0000 00000005 0000010000000000")
        record = Record(12, 1000, control_key(ControlType.COMMIT), value)
        assert list(decode_batch(batch)) == [record]
        later = Record(12, 5000, record.key, value)
        header = parse_header(batch)
        payload = bytearray()
        append_record(payload, later, 12, 1000)
        moved = batches.rebuild(header, payload, base_timestamp=1000)
        assert decode_marker(moved, parse_header(moved)) == marker

    @pytest.mark.parametrize("commits", [True, False])
    def test_as_the_general_code_writes_and_reads_it(self, commits: bool) -> None:
        kind = ControlType.COMMIT if commits else ControlType.ABORT
        record = Record(12, 1000, control_key(kind), bytes.fromhex("0000 00010002"))
        general = encode_batch([record], producer_id=7, producer_epoch=3, transactional=True, control=True)
        batch = encode_marker(Marker(commits, 0x10002), 7, 3, offset=12, now_ms=1000)
        assert batch == general
        assert list(decode_batch(batch)) == [record]

    def test_with_other_timestamps(self) -> None:
        """As compaction leaves it: the horizon is in the place of the base timestamp."""
        record = Record(12, 5000, control_key(ControlType.COMMIT), bytes.fromhex("0000 00000005"))
        batch = encode_batch([record], producer_id=7, producer_epoch=3, transactional=True, control=True)
        header = parse_header(batch)
        payload = bytearray()
        append_record(payload, record, 12, 1000)
        moved = batches.rebuild(header, payload, base_timestamp=1000)
        assert decode_marker(moved, parse_header(moved)) == Marker(True, 5)

    def test_other_control_records_are_none(self) -> None:
        record = Record(0, 0, control_key(ControlType.LEADER_CHANGE), b"")
        batch = encode_batch([record], control=True)
        assert decode_marker(batch, parse_header(batch)) is None


class TestOpenTransactions:
    def test_without_any_the_watermark_is_stable(self) -> None:
        assert OpenTransactions().last_stable_offset(42) == 42

    def test_the_oldest_open_one_is_the_limit(self) -> None:
        transactions = OpenTransactions()
        transactions.begin(7, 10)
        transactions.begin(8, 20)
        transactions.begin(7, 30)
        assert transactions.last_stable_offset(40) == 10
        transactions.end(7, 35)
        assert transactions.last_stable_offset(40) == 20

    def test_an_end_counts_once_it_is_committed(self) -> None:
        transactions = OpenTransactions()
        transactions.begin(7, 10)
        transactions.end(7, 20)
        assert transactions.last_stable_offset(20) == 10
        assert transactions.last_stable_offset(21) == 21

    def test_an_end_without_a_beginning_is_nothing(self) -> None:
        transactions = OpenTransactions()
        assert transactions.end(7, 20) is None
        assert transactions.last_stable_offset(10) == 10

    def test_a_follower_that_nobody_asks_keeps_few(self) -> None:
        transactions = OpenTransactions()
        for n in range(5 * ENDED_MAX):
            transactions.begin(7, 2 * n)
            transactions.end(7, 2 * n + 1)
        assert len(transactions.ended) <= ENDED_MAX
        assert transactions.last_stable_offset(0) == 0
        for watermark in (1, 1000, 4001):
            assert transactions.last_stable_offset(watermark) <= watermark
        assert transactions.last_stable_offset(10 * ENDED_MAX) == 10 * ENDED_MAX


class TestInALog:
    def test_an_abort_makes_a_file_and_a_commit_none(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 7, "commit")
        assert files(disk, ".txnindex") == []
        write(log, 7, "transactional")
        write(log, 7, "abort")
        assert files(disk, ".txnindex") == ["00000000000000000000.txnindex"]
        assert log.aborted(0, 100) == [AbortedTransaction(7, 2, 3, 4)]

    def test_an_abort_without_records_is_not_worth_an_entry(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "abort")
        assert files(disk, ".txnindex") == []

    def test_it_goes_with_its_segment(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, SMALL.but(retention_bytes=0, file_delete_delay_ms=0))
        write(log, 7, "transactional")
        write(log, 7, "abort")
        log.roll(1000)
        write(log, 7, "plain")
        log.enforce_retention(1000, log.end_offset)
        log.remove_deleted(1001)
        assert files(disk, ".txnindex") == []
        assert files(disk, ".deleted") == []
        assert log.aborted_transactions(0, 100) == []

    def test_it_is_built_again_after_a_crash(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 8, "transactional")
        write(log, 7, "abort")
        before = log.aborted(0, 100)
        disk.remove(PATH)
        disk.crash(survive=everything, names=everything)
        log = open_log(disk, ONE_SEGMENT)
        assert log.aborted(0, 100) == before == [AbortedTransaction(7, 0, 2, 1)]
        assert log.producers.transactions.open == {8: 1}

    def test_one_that_is_torn_is_built_again_though_the_log_was_closed(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        for _ in range(3):
            write(log, 7, "transactional")
            write(log, 7, "abort")
        log.roll(1000)
        write(log, 7, "plain")
        before = log.aborted(0, 100)
        assert log.close()
        disk.open(PATH).truncate(ENTRY_SIZE + 5)
        log = open_log(disk, ONE_SEGMENT, clean=True, recovery_point=7)
        assert log.aborted(0, 100) == before
        assert len(before) == 3
        assert log.end_offset == 7

    def test_an_index_without_a_log_is_removed(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "plain")
        assert log.close()
        disk.open("t-0/00000000000000000099.txnindex", create=True)
        open_log(disk, ONE_SEGMENT, clean=True)
        assert files(disk, ".txnindex") == []

    def test_a_disk_that_refuses_the_entry_fails_the_log_and_keeps_the_marker(
        self, disk: SimulatedDisk
    ) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        disk.fail_at(disk.operations + 2, 28)  # The first writes the marker.
        write(log, 7, "abort")
        assert log.failure is not None
        assert (log.end_offset, log.producers.transactions.open) == (2, {})

    def test_producers_with_open_transactions_do_not_expire(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 8, "plain")
        log.producers.expire(1 << 50)
        assert [producer_id for producer_id, _ in log.producers] == [7]
        log.producers.producers_max = 1
        write(log, 9, "plain")
        assert log.producers.get(7) is not None

    def test_what_a_snapshot_remembers(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 8, "transactional")
        write(log, 7, "abort")
        found = decode(encode(log.producers)).transactions
        assert found.open == {8: 1}
        assert found.ended == log.producers.transactions.ended != ()

    def test_a_marker_that_is_not_committed_is_known_after_a_clean_restart(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 7, "commit")
        sync(log)
        assert log.close()
        log = open_log(disk, ONE_SEGMENT, clean=True)
        assert log.last_stable_offset(1) == 0
        assert log.last_stable_offset(2) == 2


class TestForReaders:
    """Which aborted transactions somebody must be told of who reads so many bytes from an offset on."""

    def filled(self, disk: SimulatedDisk, settings: Settings) -> Log:
        log = open_log(disk, settings)
        for _ in range(40):
            write(log, 7, "transactional")
            write(log, 7, "abort")
        return log

    @pytest.mark.parametrize("settings", [SMALL, ONE_SEGMENT], ids=["many-segments", "one-segment"])
    def test_all_that_they_meet_and_few_more(self, disk: SimulatedDisk, settings: Settings) -> None:
        log = self.filled(disk, settings)
        for offset in range(0, 80, 7):
            for max_bytes in (1, 200, 500, 10_000):
                data = log.read(offset, max_bytes, 80, at_least_one_batch=True).read()
                last = max(header.last_offset for _, header in batches.iterate(data))
                found = log.aborted_in(offset, len(data), 80)
                assert set(found) >= set(log.aborted_transactions(offset, last + 1))
                # Two index entries are at most so many bytes, and these batches so large, apart.
                assert len(found) <= len(log.aborted_transactions(offset, last + 1)) + 4

    def test_none_behind_the_end_of_what_is_stable(self, disk: SimulatedDisk) -> None:
        log = self.filled(disk, ONE_SEGMENT)
        assert log.aborted_in(0, 1 << 20, 10) == [(7, 0), (7, 2), (7, 4), (7, 6), (7, 8)]

    def test_nothing_is_looked_up_where_nothing_was_aborted(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 7, "commit")
        before = disk.operations
        assert log.aborted_in(0, 1 << 20, 2) == []
        assert disk.operations == before


class TestDamageBeforeACut:
    """A follower cuts its log whatever has become of the indexes beside it."""

    @pytest.mark.parametrize("position", [0, 5, ENTRY_SIZE, ENTRY_SIZE + 20])
    def test_the_batches_that_are_left_tell_what_was_aborted(
        self, disk: SimulatedDisk, position: int
    ) -> None:
        log = open_log(disk, ONE_SEGMENT)
        for _ in range(3):
            write(log, 7, "transactional")
            write(log, 7, "abort")
        before = log.aborted(0, 4)
        disk.flip(PATH, position, 3)
        log.truncate_to(4)
        assert log.end_offset == 4
        assert log.aborted(0, 100) == before
        write(log, 7, "transactional")
        write(log, 7, "abort")
        assert [each.first_offset for each in log.aborted(0, 100)] == [0, 2, 4]

    def test_damaged_batches_say_nothing_about_transactions(self, disk: SimulatedDisk) -> None:
        """A producer that never was would hold back readers of committed records for ever."""
        log = open_log(disk, ONE_SEGMENT)
        for _ in range(2):
            write(log, 7, "transactional")
            write(log, 7, "commit")
        path = PATH.replace("txnindex", "log")
        assert log.close()
        log = open_log(disk, ONE_SEGMENT, clean=True)
        disk.flip(path, 50, 2)  # the producer's id
        with pytest.raises(StorageError):
            log.truncate_to(3)


class TestRebuilding:
    """Of an index with a damaged entry. A part of the new one must not pass for the whole."""

    def damaged(self, disk: SimulatedDisk) -> tuple[Log, list[AbortedTransaction]]:
        log = open_log(disk, ONE_SEGMENT)
        for _ in range(3):
            write(log, 7, "transactional")
            write(log, 7, "abort")
        log.roll(1000)
        write(log, 7, "plain")
        sync(log)
        sync(log)  # The recovery point is behind the segment now: recovery trusts it.
        assert log.recovery_point == log.end_offset == 7
        before = log.aborted(0, 100)
        disk.flip(PATH, ENTRY_SIZE + 5, 3)
        return log, before

    @pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
    def test_a_disk_that_fails_meanwhile(self, disk: SimulatedDisk, operation: str) -> None:
        log, before = self.damaged(disk)
        disk.failing[operation] = EIO
        for _ in range(2):
            with pytest.raises(StorageError):
                log.aborted(0, 100)
        disk.failing.clear()
        assert log.aborted(0, 100) == before

    @pytest.mark.parametrize("left", [0, 1, 1 << 30])
    def test_a_power_failure_at_each_operation(self, left: int) -> None:
        for number in range(1, 100):
            disk = SimulatedDisk()
            log, before = self.damaged(disk)
            disk.lose_power_at(disk.operations + number)
            with suppress(PowerLoss):
                assert log.aborted(0, 100) == before
                assert number > 5
                return
            disk.crash(keep(left), keep(left))
            log = open_log(disk, ONE_SEGMENT, recovery_point=7)
            assert log.aborted(0, 100) == before
        pytest.fail("the index was not rebuilt")

    @pytest.mark.parametrize("left", [0, 1, 2, 1 << 30])
    def test_a_power_failure_at_each_operation_of_a_recovery(self, left: int) -> None:
        """Of a segment before the recovery point, because its index is torn."""
        for number in range(1, 200):
            disk = SimulatedDisk()
            log, before = self.damaged(disk)
            assert log.close()
            torn = disk.open(PATH)
            torn.truncate(ENTRY_SIZE + 5)
            torn.sync()
            disk.lose_power_at(disk.operations + number)
            with suppress(PowerLoss):
                assert open_log(disk, ONE_SEGMENT, clean=True, recovery_point=7).aborted(0, 100) == before
                assert number > 5
                return
            disk.crash(keep(left), keep(left))
            log = open_log(disk, ONE_SEGMENT, recovery_point=7)
            assert log.aborted(0, 100) == before
        pytest.fail("the log was not opened")

    def test_recovery_replaces_an_index_that_cannot_be_read(
        self, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 7, "abort")
        before = log.aborted(0, 100)
        disk.process_died()
        broken, original = disk.open(PATH).inode, SimulatedFile.read_at

        def read_at(file: SimulatedFile, position: int, size: int) -> bytes:
            if file.inode is broken:
                raise OSError(EIO, "a sector that cannot be read")
            return original(file, position, size)

        monkeypatch.setattr(SimulatedFile, "read_at", read_at)
        assert open_log(disk, ONE_SEGMENT).aborted(0, 100) == before

    def test_recovery_leaves_an_index_that_is_complete(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "transactional")
        write(log, 7, "abort")
        before = disk.operations
        disk.process_died()
        log = open_log(disk, ONE_SEGMENT)
        assert len(log.aborted(0, 100)) == 1
        assert not [line for line in list(disk.story)[before:] if "txnindex" in line and "read" not in line]

    def test_what_is_added_later_survives_with_it(self, disk: SimulatedDisk) -> None:
        """The name of the new file is synced before the recovery point passes what it holds."""
        log = open_log(disk, ONE_SEGMENT)
        for _ in range(2):
            write(log, 7, "transactional")
            write(log, 7, "abort")
        sync(log)
        disk.flip(PATH, 5, 3)
        assert len(log.aborted(0, 100)) == 2
        write(log, 7, "transactional")
        write(log, 7, "abort")
        sync(log)
        assert disk.synced_contents("t-0")[PATH][:ENTRY_SIZE] == disk.open(PATH).read_at(0, ENTRY_SIZE)

    def test_no_file_where_nothing_was_aborted(self, disk: SimulatedDisk) -> None:
        log = open_log(disk, ONE_SEGMENT)
        write(log, 7, "plain")
        log.roll(1000)
        log.repair_indexes(log.segments[0], "an entry is wrong")
        assert files(disk, ".txnindex") == []
