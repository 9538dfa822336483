"""A large segment without indexes: readers wait for a thread, and everybody else for nothing."""

from typing import Any

import pytest

from tidelog.log import index_build
from tidelog.log.index_build import IndexBuild
from tidelog.protocol.batch import iterate
from unit.broker.fakes import NOW_MS, FakeBroker, Fetching, value_of, wanted

COUNT = 30


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """A log whose indexes are gone, and count as too large to be built at once."""
    monkeypatch.setattr("tidelog.log.segment_indexes.AT_ONCE_BYTES_MAX", 100)
    monkeypatch.setattr(IndexBuild.step, "__defaults__", (500,))
    assert index_build.SLICE_BYTES > 500
    broker = FakeBroker()
    broker.create("t")
    for number in range(COUNT):
        broker.append("t", b"x", at_ms=NOW_MS + number)
    broker.partition("t").log.segments[0].indexes.distrust()
    broker.services.held = True
    return broker


def steps(broker: FakeBroker) -> int:
    """Run what waits for a thread, one piece at a time; how many there were."""
    count = 0
    while broker.services._offloaded:
        work, done = broker.services._offloaded.popleft()
        done(work())
        count += 1
    broker.services.settle()
    return count


def first_offset(reading: Fetching) -> int:
    return next(header.base_offset for _, header in iterate(reading.partition.records))


def test_a_reader_gets_records_when_they_are_there(broker: FakeBroker) -> None:
    readings = [broker.fetch(wanted("t", offset), max_wait=5000, min_bytes=1) for offset in (3, 7)]
    assert all(reading.waits for reading in readings)
    size = broker.partition("t").log.segments[0].size
    assert size // 600 <= steps(broker) <= size // 500 + 1  # Once for both of them.
    assert [first_offset(reading) for reading in readings] == [3, 7]


def test_a_reader_that_does_not_wait_is_told_that_there_is_nothing_yet(broker: FakeBroker) -> None:
    found = broker.fetch(wanted("t", 3), max_wait=0).partition
    assert (found.error_code, found.records) == (0, b"")
    steps(broker)
    assert first_offset(broker.fetch(wanted("t", 3), max_wait=0)) == 3


def look_up(broker: FakeBroker, timestamp: int) -> Any:
    partitions = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
    return broker.begin(
        "list_offsets", 8, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": partitions}]
    )


def test_a_look_up_is_answered_when_they_are_there(broker: FakeBroker) -> None:
    future = look_up(broker, NOW_MS + 4)
    assert not future.is_complete
    steps(broker)
    assert value_of(future).topics[0].partitions[0].offset == 4


def test_a_cut_meanwhile_makes_it_begin_again(broker: FakeBroker) -> None:
    future = look_up(broker, NOW_MS + 4)
    broker.partition("t").log.truncate_to(10)
    steps(broker)
    assert value_of(future).topics[0].partitions[0].offset == 4


def test_a_disk_that_fails_is_told(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    future = look_up(broker, NOW_MS + 4)
    broker.services._offloaded[0][1](OSError("cannot read"))
    assert value_of(future).topics[0].partitions[0].error_code == 56
