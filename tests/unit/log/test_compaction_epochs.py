"""Compaction leaves to see where a leader epoch begins: recovery and followers learn it from the batches."""

from tidelog.log.log import Log
from tidelog.sim.disk import SimulatedDisk, everything
from unit.log.compaction_model import COMPACT, all_batches, all_records, compact, short, write_each
from unit.log.log_model import open_log

ONE = COMPACT.but(segment_bytes=1 << 20)


def compacted(disk: SimulatedDisk) -> Log:
    log = open_log(disk, ONE)
    write_each(log, "a1 b1 c1")
    write_each(log, "a2 b2", epoch=3)
    write_each(log, "a3 b3 roll d1", epoch=3)
    compact(disk, log, ONE)
    assert short(all_records(log)) == "2c1 5a3 6b3 7d1"
    return log


def test_the_first_batch_stays_without_its_records() -> None:
    log = compacted(SimulatedDisk())
    found = [(header.base_offset, header.leader_epoch, header.count) for header, _ in all_batches(log)]
    assert found == [(2, 0, 1), (3, 3, 0), (5, 3, 1), (6, 3, 1), (7, 3, 1)]


def test_it_stays_in_later_passes() -> None:
    disk = SimulatedDisk()
    log = compacted(disk)
    write_each(log, "a4 roll", epoch=3)
    compact(disk, log, ONE)
    assert (3, 3) in [(header.base_offset, header.leader_epoch) for header, _ in all_batches(log)]


def test_recovery_finds_the_same_beginning() -> None:
    disk = SimulatedDisk()
    before = compacted(disk).epochs.epoch_at(4)
    disk.crash(survive=everything, names=everything)
    log = open_log(disk, ONE)
    assert (log.epochs.epoch_at(2), log.epochs.epoch_at(3), log.epochs.epoch_at(4)) == (0, 3, before)


def test_a_follower_finds_it_too() -> None:
    leader = compacted(SimulatedDisk())
    data = leader.read(0, 1 << 20, leader.end_offset, at_least_one_batch=True).read()
    follower = open_log(SimulatedDisk(), ONE)
    follower.append_batches(memoryview(data), 1000)
    assert [follower.epochs.epoch_at(offset) for offset in (2, 3, 4)] == [0, 3, 3]
