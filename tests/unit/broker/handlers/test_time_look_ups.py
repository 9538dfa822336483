"""Look-ups by time that must open a large batch: in a thread, and of the log as it is afterwards."""

from typing import Any

import pytest

from tidelog.broker.future import Future
from tidelog.errors import ErrorCode
from tidelog.protocol import batch as batches
from tidelog.protocol.codecs import Codec
from tidelog.protocol.records import Record, encode_batch
from unit.broker.fakes import NOW_MS, FakeBroker, value_of

NEWEST = -3
COUNT = 10
BEHIND_MS = NOW_MS + 500


def compressed(*after_ms: int) -> bytes:
    rows = [Record(place, NOW_MS + after, None, b"v") for place, after in enumerate(after_ms)]
    return bytes(encode_batch(rows, codec=Codec.ZSTD))


@pytest.fixture
def broker() -> FakeBroker:
    """Offsets 0 to 9 in a compressed batch, one millisecond apart; 10 at NOW + 500."""
    broker = FakeBroker()
    broker.create("t")
    broker.produce(("t", 0, compressed(*range(COUNT))))
    broker.append("t", b"behind", at_ms=BEHIND_MS)
    broker.services.settle()
    broker.services.held = True
    return broker


def ask(broker: FakeBroker, *timestamps: int) -> Future[Any]:
    wanted = [
        {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1} for timestamp in timestamps
    ]
    future = broker.begin(
        "list_offsets", 8, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": wanted}]
    )
    broker.services.settle()
    return future


def answers(broker: FakeBroker, future: Future[Any]) -> list[tuple[int, int]]:
    broker.services.held = False
    broker.services.settle()
    assert future.is_complete
    return [(each.error_code, each.offset) for each in value_of(future).topics[0].partitions]


def test_it_is_opened_elsewhere(broker: FakeBroker) -> None:
    future = ask(broker, NOW_MS + 7, BEHIND_MS, NOW_MS - 5)
    assert not future.is_complete
    assert answers(broker, future) == [(0, 7), (0, COUNT), (0, 0)]


def test_small_batches_are_opened_at_once(broker: FakeBroker) -> None:
    assert ask(broker, BEHIND_MS, NEWEST).is_complete


def test_records_that_are_deleted_meanwhile_are_not_found(broker: FakeBroker) -> None:
    future = ask(broker, NOW_MS + 3)
    broker.partition("t").delete_records(5)
    assert answers(broker, future) == [(0, 5)]


def test_records_that_are_cut_meanwhile_are_not_found(broker: FakeBroker) -> None:
    future = ask(broker, NOW_MS + 3, NEWEST)
    log = broker.partition("t").log
    log.truncate_to(0)
    broker.append("t", b"other", at_ms=NOW_MS + 100)
    assert answers(broker, future)[0] == (0, 0)


def test_what_arrives_meanwhile_does_not_make_it_begin_again(broker: FakeBroker) -> None:
    future = ask(broker, NOW_MS + 3)
    work, done = broker.services._offloaded.popleft()
    broker.append("t", b"more", at_ms=NOW_MS + 3)
    done(work())
    assert future.is_complete


def test_a_topic_that_is_deleted_meanwhile(broker: FakeBroker) -> None:
    future = ask(broker, NOW_MS + 3)
    broker.services.held = False
    broker.call("delete_topics", 6, topics=[{"name": "t"}])
    assert answers(broker, future) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_a_batch_that_claims_a_later_time_is_passed() -> None:
    broker = FakeBroker()
    broker.create("t")
    lying = bytearray(compressed(0, 0))
    batches.set_max_timestamp(memoryview(lying), NOW_MS + 100)
    for _ in range(3):
        broker.produce(("t", 0, bytes(lying)))
    broker.append("t", b"behind", at_ms=BEHIND_MS)
    assert answers(broker, ask(broker, NOW_MS + 50)) == [(0, 6)]


def test_a_defect_is_answered(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    future = ask(broker, NOW_MS + 3)
    _, done = broker.services._offloaded.popleft()
    done(RuntimeError("no more memory"))
    assert answers(broker, future) == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    assert "a look-up in t-0 failed" in caplog.text
