"""Looking up by time, against a scan over all records."""

from hypothesis import given, settings
from hypothesis import strategies as st
from log_model import SMALL, append, contents, make_batch, open_log, record_batch

from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.sim.disk import SimulatedDisk

Timestamps = list[list[int]]


def build(rows: Timestamps, *, reopen: bool = False) -> tuple[Log, list[tuple[int, int, int]]]:
    """A log with these batches, and (timestamp, offset, epoch) of each record."""
    disk = SimulatedDisk()
    log = open_log(disk, SMALL.but(segment_bytes=600, index_interval_bytes=100))
    records = []
    for number, timestamps in enumerate(rows):
        base = log.end_offset
        epoch = number // 5
        append(log, record_batch(base, timestamps, epoch=epoch))
        records += [(timestamp, base + n, epoch) for n, timestamp in enumerate(timestamps)]
    if reopen:
        log.close()
        log = open_log(disk, SMALL.but(segment_bytes=600, index_interval_bytes=100), clean=True)
    return log, records


batch_timestamps = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=30)


@given(batch_timestamps, st.integers(-1, 62), st.integers(0, 130), st.integers(0, 20), st.booleans())
@settings(deadline=None)
def test_the_first_record_not_older(
    rows: Timestamps, wanted: int, end: int, start: int, reopen: bool
) -> None:
    log, records = build(rows, reopen=reopen)
    log.advance_start(min(start, log.end_offset))
    readable = [record for record in records if log.start_offset <= record[1] < end]
    expected = next((record for record in readable if record[0] >= wanted), None)
    assert log.find_timestamp(wanted, end) == expected


@given(batch_timestamps, st.integers(0, 130), st.booleans())
@settings(deadline=None)
def test_the_newest_record_of_whole_batches_before_the_end(rows: Timestamps, end: int, reopen: bool) -> None:
    log, records = build(rows, reopen=reopen)
    whole_end = max((last + 1 for _, last, _ in contents(log, end_offset=end)), default=0)
    readable = [record for record in records if record[1] < whole_end]
    expected = max(readable, key=lambda record: (record[0], -record[1]), default=None)
    assert log.find_max_timestamp(end) == expected


def test_an_empty_log_has_no_time() -> None:
    log = open_log(SimulatedDisk())
    assert log.find_timestamp(0, 100) is None
    assert log.find_max_timestamp(100) is None


def test_records_without_timestamps_are_not_found() -> None:
    log = open_log(SimulatedDisk())
    append(log, record_batch(0, [-1, -1]))
    assert log.find_timestamp(0, 100) is None
    assert log.find_max_timestamp(100) is None


def test_append_time_is_the_time_of_every_record() -> None:
    log = open_log(SimulatedDisk())
    append(log, make_batch(0, count=1, timestamp=1))
    data = record_batch(1, [5, 6, 7])
    batches.set_append_time(data, 0, len(data), 500)
    append(log, data)
    assert log.find_timestamp(400, 100) == (500, 1, 0)
    assert log.find_max_timestamp(100) == (500, 1, 0)
