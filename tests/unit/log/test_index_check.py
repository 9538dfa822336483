"""Indexes are not believed: what they say is held against the batches, and they are built anew where it is
wrong. A batch that does not lead to the next one is damage, never a reason to go on with another segment."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.scrubber import Scrubber
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.index_check import index_pieces
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment
from tidelog.sim.disk import SimulatedDisk, SimulatedFile
from unit.log.log_model import (
    ONE_SEGMENT,
    SMALL,
    Settings,
    append,
    append_many,
    contents,
    open_log,
    record_batch,
)
from unit.log.transaction_model import write

FIRST = "t-0/00000000000000000000"
COUNT = 60


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def reopened(disk: SimulatedDisk, settings: Settings = SMALL) -> Log:
    log = open_log(disk, settings)
    append_many(log, COUNT)
    assert log.close()
    return open_log(disk, settings, clean=True)


def offsets(log: Log) -> list[int]:
    return [base for base, _, _ in contents(log)]


def write_entry(disk: SimulatedDisk, path: str, at: int, form: str, *fields: int) -> None:
    disk.open(path).write_at(at, struct.pack(form, *fields))


@pytest.mark.parametrize("entry", [(5, 50), (1, 400), (2, 99_999), (0, 0), (1 << 31, 1 << 31)])
def test_a_wrong_entry_of_the_offset_index_leads_nobody_astray(
    disk: SimulatedDisk, entry: tuple[int, int]
) -> None:
    log = reopened(disk)
    write_entry(disk, f"{FIRST}.index", 0, ">II", *entry)
    assert offsets(log) == list(range(COUNT))
    for offset in range(COUNT):
        data = log.read(offset, 1, COUNT, at_least_one_batch=True).read()
        assert struct.unpack_from(">q", data)[0] == offset


@pytest.mark.parametrize("entry", [(1 << 40, 3), (0, 3), (1003, 8), (1001, 1 << 30)])
def test_a_wrong_entry_of_the_time_index_hides_nothing(disk: SimulatedDisk, entry: tuple[int, int]) -> None:
    log = open_log(disk)
    for number in range(COUNT):
        append(log, record_batch(number, [1000 + number]))
    assert log.close()
    write_entry(disk, f"{FIRST}.timeindex", 0, ">qI", *entry)
    log = open_log(disk, clean=True)
    for number in range(COUNT):
        assert log.find_timestamp(1000 + number, COUNT) == (1000 + number, number, 0)
    assert log.find_max_timestamp(COUNT) == (1000 + COUNT - 1, COUNT - 1, 0)


def test_an_index_that_was_right_at_first_is_not_believed_for_ever(disk: SimulatedDisk) -> None:
    log = reopened(disk)
    assert offsets(log) == list(range(COUNT))
    write_entry(disk, f"{FIRST}.index", 8, ">II", 3, 401)
    assert offsets(log) == list(range(COUNT))


def test_opening_does_not_read_whole_indexes(disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SMALL.but(segment_bytes=1 << 20, segment_index_bytes=1 << 16)
    log = open_log(disk, settings)
    append_many(log, 3000)
    assert log.close()
    read: list[int] = []
    original = SimulatedFile.read_at

    def read_at(file: SimulatedFile, position: int, size: int) -> bytes:
        if "index" in file.path:
            read.append(size)
        return original(file, position, size)

    monkeypatch.setattr(SimulatedFile, "read_at", read_at)
    open_log(disk, settings, clean=True)
    assert sum(read) <= 20


@pytest.mark.parametrize("length", [b"\x00\x01\x00\x58", b"\x00\x00\x02\x58", b"\x00\x00\x00\x10"])
def test_a_batch_that_does_not_reach_the_next_one_is_damage(disk: SimulatedDisk, length: bytes) -> None:
    """It was a silent step to the next segment: read at 4, get 285."""
    log = reopened(disk, SMALL.but(index_interval_bytes=1 << 20))
    disk.open(f"{FIRST}.log").write_at(300 + 8, length)
    for offset in range(3, 10):
        with pytest.raises(DamagedSegment) as damage:
            log.read(offset, 1 << 20, COUNT, at_least_one_batch=True)
        assert damage.value.offset <= offset
    assert damage.value.offset <= 3
    log.truncate_to(damage.value.offset)
    append_many(log, COUNT - log.end_offset)
    assert offsets(log) == list(range(COUNT))


def test_a_segment_that_ends_early_is_damage(disk: SimulatedDisk) -> None:
    log = reopened(disk)
    file = disk.open(f"{FIRST}.log")
    last = file.size() - 100
    disk.open(f"{FIRST}.log").write_at(last, struct.pack(">q", 0))  # Its last batch claims another offset.
    with pytest.raises(DamagedSegment):
        log.read(9, 1 << 20, COUNT, at_least_one_batch=True)


def test_a_truncation_meets_a_wrong_index(disk: SimulatedDisk) -> None:
    log = reopened(disk, SMALL.but(segment_bytes=1 << 20))
    log.read(0, 1, COUNT, at_least_one_batch=True)
    write_entry(disk, f"{FIRST}.index", 8 * 5, ">II", 2, 5999)
    log.truncate_to(20)
    assert (log.end_offset, offsets(log)) == (20, list(range(20)))
    append_many(log, 5)
    assert offsets(log) == list(range(25))


# --- aborted transactions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_entry_of_an_aborted_transaction_is_made_anew(disk: SimulatedDisk, clean: bool) -> None:
    log = open_log(disk)
    for _ in range(12):
        for kind in ("transactional", "transactional", "abort"):
            write(log, 7, kind)
    expected = log.aborted(0, log.end_offset)
    (path, *_) = sorted(path for path in disk.paths() if path.endswith(".txnindex"))
    if clean:
        assert log.close()
        log = open_log(disk, clean=True)
    for position in range(34):
        disk.flip(path, position, position % 8)
        assert log.aborted(0, log.end_offset) == expected


def test_entries_without_a_check_are_read(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    write(log, 7, "transactional")
    write(log, 7, "abort")
    path = f"{FIRST}.txnindex"
    write_entry(disk, path, 0, ">h", 0)  # As Kafka writes it.
    assert log.aborted(0, 2) == [AbortedTransaction(7, 0, 1, 2)]


# --- the scrubber -------------------------------------------------------------------------------------------


def test_every_entry_is_held_against_its_batch(disk: SimulatedDisk) -> None:
    log = reopened(disk)
    (piece,) = index_pieces(log.segments[0])
    assert piece.check() == ""
    for path, positions in ((f"{FIRST}.index", range(16)), (f"{FIRST}.timeindex", range(24))):
        for position in positions:
            disk.flip(path, position, 2)
            assert piece.check(), (path, position)
            disk.flip(path, position, 2)
    assert piece.check() == ""


def test_the_scrubber_has_wrong_indexes_built_anew(disk: SimulatedDisk) -> None:
    log = reopened(disk)
    disk.flip(f"{FIRST}.timeindex", 19, 1)
    pending: list[Callable[[], None]] = []
    services = SimpleNamespace(
        later=lambda delay, run: pending.append(run),
        offload=lambda job, done: pending.append(lambda: done(job())),
    )
    partition = SimpleNamespace(log=log, name="t-0", driver=None)
    broker = SimpleNamespace(
        services=services, partitions=[partition], config=SimpleNamespace(log_scrub_bytes_per_second=1)
    )
    scrubber = Scrubber(cast("Broker", broker))
    scrubber.step(None)
    for _ in range(100):
        if pending and scrubber.wrong_indexes == 0:
            pending.pop(0)()
    assert (scrubber.wrong_indexes, scrubber.damaged_segments) == (1, 0)
    assert log.segments[0].indexes.load_max_timestamp() == 1000 + log.segments[1].base_offset - 1
    (piece,) = index_pieces(log.segments[0])
    assert piece.check() == ""


def test_a_damaged_offset_does_not_get_into_the_indexes(disk: SimulatedDisk) -> None:
    """Neither when they are built anew nor when the segment is full: appends go on, readers are told."""
    log = open_log(disk, ONE_SEGMENT)
    append_many(log, 5)
    assert log.close()
    disk.flip(FIRST + ".log", 1, 5)
    disk.flip(FIRST + ".timeindex", 0, 0)
    log = open_log(disk, ONE_SEGMENT, clean=True)
    log.roll(1000)
    append_many(log, 1)
    assert log.read(5, 100, 6, at_least_one_batch=True).size
    with pytest.raises(DamagedSegment):
        log.read(0, 100, 6, at_least_one_batch=True)
