"""Indexes of a large segment are built in slices, elsewhere: who reads handles a few kilobytes at a time."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tidelog.log.index_build import AT_ONCE_BYTES_MAX, IndexBuild, Unindexed
from tidelog.log.log import Log
from tidelog.log.lookup import Opened
from tidelog.log.reading import Unread
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk, SimulatedFile
from unit.log.log_model import Settings, append, open_log

FIRST = "t-0/00000000000000000000"
SETTINGS = Settings(segment_bytes=300_000, index_interval_bytes=4096, retention_ms=1000)
BATCH_BYTES = 1000
COUNT = 700
ALL = 1 << 30


def write(log: Log, count: int) -> None:
    """Batches of one record and 1,000 bytes each, a millisecond apart."""
    for offset in range(log.end_offset, log.end_offset + count):
        record = Record(offset, 1000 + offset, None, b"x" * (BATCH_BYTES - 70))
        append(log, bytearray(encode_batch([record], leader_epoch=0)))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    log = open_log(disk, SETTINGS)
    write(log, COUNT)
    assert len(log.segments) == 3
    assert log.segments[0].size > AT_ONCE_BYTES_MAX
    assert log.close()
    return disk


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How much was read from files, each time."""
    sizes: list[int] = []
    original = SimulatedFile.read_at

    def read_at(self: SimulatedFile, position: int, size: int) -> bytes:
        data = original(self, position, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(SimulatedFile, "read_at", read_at)
    yield sizes


def reopened(disk: SimulatedDisk) -> Log:
    return open_log(disk, SETTINGS, clean=True)


def read(log: Log, offset: int) -> int:
    """The first offset that comes."""
    region = log.read(offset, 1, log.end_offset, at_least_one_batch=True, unread=Unread())
    return int.from_bytes(region.read()[:8], "big")


def lose_indexes(disk: SimulatedDisk) -> None:
    for kind in ("index", "timeindex"):
        disk.remove(f"{FIRST}.{kind}")


def built(log: Log) -> IndexBuild:
    build = IndexBuild(log.segments[0])
    while not build.step():
        pass
    return build


def test_who_reads_does_not_read_the_segment(disk: SimulatedDisk, read_bytes: list[int]) -> None:
    lose_indexes(disk)
    log = reopened(disk)
    read_bytes.clear()
    for _ in range(3):
        with pytest.raises(Unindexed):
            read(log, 100)
        with pytest.raises(Unindexed):
            log.find_timestamp(1100, COUNT, Opened(log))
        with pytest.raises(Unindexed):
            log.find_max_timestamp(COUNT, Opened(log))
        with pytest.raises(Unindexed):
            log.enforce_retention(1 << 40, COUNT, defers=True)
    assert sum(read_bytes) < AT_ONCE_BYTES_MAX
    assert read(log, 400) == 400  # The other segments have theirs.


@pytest.mark.parametrize("slice_bytes", [1, 10_000, 64_000])
def test_a_slice_is_as_large_as_it_may_be(disk: SimulatedDisk, slice_bytes: int) -> None:
    lose_indexes(disk)
    log = reopened(disk)
    build, done = IndexBuild(log.segments[0]), [0]
    while not build.step(slice_bytes):
        done.append(build.done_bytes)
    handled = [after - before for before, after in pairwise(done)]
    assert max(handled) <= slice_bytes + BATCH_BYTES
    assert build.done_bytes == log.segments[0].size
    log.take_indexes(log.segments[0], build)
    assert [read(log, offset) for offset in range(0, COUNT, 50)] == list(range(0, COUNT, 50))


def test_they_are_what_they_were(disk: SimulatedDisk) -> None:
    was = [disk.open(f"{FIRST}.{kind}").read_at(0, ALL) for kind in ("index", "timeindex")]
    lose_indexes(disk)
    log = reopened(disk)
    log.take_indexes(log.segments[0], built(log))
    log.segments[0].indexes.load_max_timestamp()
    assert [disk.open(f"{FIRST}.{kind}").read_at(0, ALL) for kind in ("index", "timeindex")] == was


def test_a_wrong_entry_holds_up_only_who_follows_it(disk: SimulatedDisk, read_bytes: list[int]) -> None:
    log = reopened(disk)
    assert read(log, 100) == 100
    disk.flip(f"{FIRST}.index", 8 * 20 + 7, 1)
    last, _ = log.segments[0].indexes.offsets.entry(20)
    read_bytes.clear()
    with pytest.raises(Unindexed):
        read(log, last + 1)
    assert read(log, 10) == 10
    assert sum(read_bytes) < AT_ONCE_BYTES_MAX
    log.take_indexes(log.segments[0], built(log))
    assert read(log, last + 1) == last + 1


def test_who_must_have_them_now_builds_them(disk: SimulatedDisk) -> None:
    lose_indexes(disk)
    log = reopened(disk)
    assert log.find_timestamp(1100, COUNT) == (1100, 100, 0)
    assert read(log, 100) == 100


def test_what_is_appended_meanwhile_is_found() -> None:
    settings = SETTINGS.but(segment_bytes=10_000_000)
    log = open_log(SimulatedDisk(), settings)
    write(log, 300)
    build = built(log)
    write(log, 20)
    log.take_indexes(log.segments[0], build)
    write(log, 1)
    assert [read(log, offset) for offset in range(0, 321, 20)] == list(range(0, 321, 20))
    assert log.find_timestamp(1319, 321) == (1319, 319, 0)
    assert log.segments[0].indexes.offsets.entry(log.segments[0].indexes.offsets.count - 1)[0] >= 315


def test_damage_is_told_when_they_are_there(disk: SimulatedDisk) -> None:
    lose_indexes(disk)
    log = reopened(disk)
    disk.flip(f"{FIRST}.log", 50 * BATCH_BYTES, 3)
    build = built(log)
    assert build.broken is not None
    log.take_indexes(log.segments[0], build)
    assert read(log, 10) == 10
    with pytest.raises(Exception, match="damaged"):
        log.find_timestamp(1200, COUNT, Opened(log))
