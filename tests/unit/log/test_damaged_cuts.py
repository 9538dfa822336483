"""A log is not cut through damage that nobody knows of: what is dropped may have been acknowledged."""

import pytest

from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.batch import build
from tidelog.sim.disk import SimulatedDisk
from unit.log.log_model import ONE_SEGMENT, Settings, append, append_many, contents, make_batch, open_log

FIRST = "t-0/00000000000000000000.log"
HOPPED_OVER = ONE_SEGMENT.but(index_interval_bytes=150)
NOT_INDEXED = ONE_SEGMENT.but(index_interval_bytes=1 << 20)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def numbered(offset: int) -> bytearray:
    """A batch of an idempotent producer."""
    return build(
        b"x" * 39, base_offset=offset, last_offset_delta=0, count=1, base_timestamp=1000, max_timestamp=1000,
        producer_id=7, producer_epoch=0, base_sequence=offset,
    )  # fmt: skip


def test_batches_before_the_cut_that_do_not_hang_together_stay(disk: SimulatedDisk) -> None:
    log = damaged(disk, NOT_INDEXED)
    with pytest.raises(DamagedSegment) as found:
        log.truncate_to(8)
    assert (found.value.offset, log.end_offset) == (1, 10)
    assert log.end_if_truncated(8) == 8


def test_damage_that_only_the_producers_batches_show(disk: SimulatedDisk) -> None:
    log = damaged(disk, HOPPED_OVER)
    with pytest.raises(DamagedSegment) as found:
        log.truncate_to(8)
    assert (found.value.offset, log.end_offset) == (1, 8)


@pytest.mark.parametrize("settings", [NOT_INDEXED, HOPPED_OVER])
def test_such_a_log_is_refused_until_it_is_cut_before_the_damage(
    disk: SimulatedDisk, settings: Settings
) -> None:
    log = damaged(disk, settings)
    with pytest.raises(DamagedSegment):
        log.truncate_to(8)
    with pytest.raises(StorageError):
        append(log, numbered(log.end_offset))
    with pytest.raises(StorageError):
        log.truncate_to(5)
    log.truncate_to(1)
    assert (log.failure, log.end_offset) == (None, 1)
    append_many(log, 2)
    assert [batch[0] for batch in contents(log)] == [0, 1, 2]
    assert log.producers.get(7) is not None


def test_such_a_log_may_begin_anew(disk: SimulatedDisk) -> None:
    log = damaged(disk, NOT_INDEXED)
    with pytest.raises(DamagedSegment):
        log.truncate_to(8)
    log.restart_at(20)
    append(log, make_batch(20))
    assert (log.failure, log.end_offset) == (None, 21)


def test_a_log_that_failed_is_not_mended_by_a_cut(disk: SimulatedDisk) -> None:
    log = damaged(disk, NOT_INDEXED)
    log.refuse_writes("contradicted")
    with pytest.raises(StorageError):
        log.truncate_to(1)


def test_the_end_of_what_is_whole(disk: SimulatedDisk) -> None:
    log = damaged(disk, NOT_INDEXED)
    assert [log.whole_to(offset) for offset in (0, 1, 2, 8, 10, 30)] == [0, 1, 1, 1, 10, 30]


def damaged(disk: SimulatedDisk, settings: Settings) -> Log:
    """Ten batches, of which the fourth one lies in the place of the third."""
    log = open_log(disk, settings)
    for _ in range(10):
        append(log, numbered(log.end_offset))
    size = len(numbered(0))
    data = disk.contents("t-0")[FIRST]
    disk.open(FIRST).write_at(2 * size, data[3 * size : 4 * size])
    return log
