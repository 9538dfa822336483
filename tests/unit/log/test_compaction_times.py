"""Compaction writes only timestamps that fit into 64 bits, whatever a topic's settings or a producer say."""

import pytest

from tidelog.protocol import batch as batches
from tidelog.protocol.records import Record, encode_batch
from tidelog.sim.disk import SimulatedDisk
from unit.log.compaction_model import COMPACT, all_batches, all_records, compact, short, write, write_each
from unit.log.log_model import LONG, append, open_log

NOW_MS = 1_700_000_000_000
OLDEST = -(1 << 63)


def test_tombstones_that_stay_for_ever() -> None:
    """``delete.retention.ms`` is the largest number."""
    disk, settings = SimulatedDisk(), COMPACT.but(delete_retention_ms=LONG)
    log = open_log(disk, settings)
    write_each(log, "a1 b1 a- roll c1 roll")
    compact(disk, log, settings, now_ms=NOW_MS)
    write_each(log, "d1 roll")
    compact(disk, log, settings, now_ms=1 << 50)
    assert short(all_records(log)) == "1b1 2a- 3c1 4d1"
    assert [record.timestamp for record in all_records(log)] == [1000] * 4


@pytest.mark.parametrize("timestamp", [OLDEST, OLDEST + 1, OLDEST + NOW_MS, OLDEST // 2, -1, 0])
def test_a_tombstone_from_long_ago(timestamp: int) -> None:
    """Where the distance to the delete horizon does not fit, the tombstone gets none, and stays."""
    disk = SimulatedDisk()
    log = open_log(disk, COMPACT)
    write_each(log, "a1")
    write(log, ("a", None), ("b", "1"), timestamp=timestamp)
    write_each(log, "b2 roll c1 roll")
    compact(disk, log, now_ms=NOW_MS)
    assert short(all_records(log)) == "1a- 3b2 4c1"
    assert all_records(log)[0].timestamp == timestamp
    write_each(log, "d1 roll")
    compact(disk, log, now_ms=NOW_MS + 2000)
    fits = timestamp >= OLDEST // 2
    assert short(all_records(log)) == ("3b2 4c1 5d1" if fits else "1a- 3b2 4c1 5d1")


def test_times_whose_sum_does_not_fit_are_left_alone() -> None:
    """Compressed batches are not opened when a topic without compaction takes them."""
    disk = SimulatedDisk()
    log = open_log(disk, COMPACT)
    records = [Record(number, 1000 * number, b"a", b"1") for number in range(2)]
    batch = encode_batch(records, leader_epoch=0)
    wrong = batches.rebuild(
        batches.parse_header(batch), batch[batches.HEADER_SIZE :], base_timestamp=LONG, max_timestamp=1000
    )
    append(log, wrong)
    write_each(log, "a2 b1 b- roll c1 roll")
    compact(disk, log, now_ms=NOW_MS)
    assert [(header.base_offset, header.count) for header, _ in all_batches(log)] == [
        (0, 2), (2, 1), (4, 1), (5, 1),
    ]  # fmt: skip
