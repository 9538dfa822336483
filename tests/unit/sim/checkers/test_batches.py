"""Which records lie in a part of a log."""

from typing import Any

import pytest

from tidelog.config import TopicConfig
from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.sim.checkers.batches import batches_between, newest_of, records_between
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000


@pytest.fixture
def log() -> Log:
    """Of the records 0 to 9, compaction has left 1, 6 and 9, in two batches."""
    disk = SimulatedDisk()
    log = Log.open(disk, "t-0", TopicConfig(), clean=False, now_ms=NOW_MS)
    for offsets in ((1, 6), (9,)):
        records = [Record(offset, NOW_MS, b"%d" % offset, b"v", ()) for offset in offsets]
        log.append_batches(memoryview(encode_batch(records, leader_epoch=0)), NOW_MS)
    return log


@pytest.mark.parametrize(("end", "found"), [(1, []), (2, [1]), (6, [1]), (7, [1, 6]), (10, [1, 6, 9])])
def test_the_watermark_may_lie_inside_of_what_was_compacted_later(
    log: Log, end: int, found: list[int]
) -> None:
    assert [offset for offset, _ in records_between(log, 0, end)] == found


def test_not_inside_of_a_batch_that_nobody_compacts(log: Log) -> None:
    with pytest.raises(Violation, match="no batch begins"):
        batches_between(log, 0, 4)
    assert [offset for offset, _ in batches_between(log, 0, 4, may_extend=True)] == [1]


@pytest.mark.parametrize(
    ("kind", "newest"),
    [(ControlType.COMMIT, (1, b"in")), (ControlType.ABORT, (0, b"before")), (None, (0, b"before"))],
)
def test_the_newest_value_is_one_that_counts(kind: ControlType | None, newest: tuple[int, bytes]) -> None:
    log = Log.open(SimulatedDisk(), "t-0", TopicConfig(), clean=False, now_ms=NOW_MS)
    transaction: dict[str, Any] = {
        "leader_epoch": 0,
        "producer_id": 7,
        "producer_epoch": 0,
        "transactional": True,
    }
    batches = [
        encode_batch([Record(0, NOW_MS, b"k", b"before", ())], leader_epoch=0),
        encode_batch([Record(1, NOW_MS, b"k", b"in", ())], base_sequence=0, **transaction),
    ]
    if kind is not None:
        marker = Record(2, NOW_MS, control_key(kind), b"\0" * 6, ())
        batches.append(encode_batch([marker], control=True, **transaction))
    for batch in batches:
        log.append_batches(memoryview(batch), NOW_MS)
    assert newest_of(log) == {b"k": newest}


def test_a_disk_without_room_for_indexes_hides_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = batches_between(log, 0, 10)

    def read(*_: object, **__: object) -> None:
        raise StorageError("no space left for the index")

    monkeypatch.setattr(Log, "read", read)
    assert batches_between(log, 0, 10) == whole
    assert batches_between(log, 7, 10) == whole[1:]
