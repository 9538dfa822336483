"""Which refused batches are remembered, for how long, and what later ones of their producer are told."""

import pytest

from interop.records import batch
from tidelog.broker.partitions import refused_batches
from tidelog.broker.partitions.refused_batches import NOTED_MS, RefusedBatches
from tidelog.errors import ErrorCode
from tidelog.log.producers import SEQUENCE_MASK
from unit.broker.fakes import FakeServices

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def sent(sequence: int = 0, producer_id: int = 7, epoch: int = 0) -> memoryview:
    return memoryview(bytearray(batch(b"x", producer=(producer_id, epoch, sequence))))


@pytest.fixture
def services() -> FakeServices:
    return FakeServices()


@pytest.fixture
def refused(services: FakeServices) -> RefusedBatches:
    return RefusedBatches(services)


def test_nothing_is_looked_at_while_nothing_is_noted(refused: RefusedBatches) -> None:
    assert not refused.any
    refused.note("t", 0, sent(), NOT_LEADER)
    assert refused.any


def test_notes_are_of_one_partition_one_producer_and_one_epoch(refused: RefusedBatches) -> None:
    refused.note("t", 0, sent(3), NOT_LEADER)
    assert refused.before("t", 0, sent(9)) == {3: NOT_LEADER}
    for other in (("t", 1, sent(9)), ("u", 0, sent(9)), ("t", 0, sent(9, 8)), ("t", 0, sent(9, epoch=1))):
        assert refused.before(*other) is None


@pytest.mark.parametrize("records", [None, memoryview(b"short"), memoryview(batch(b"x"))])
def test_only_numbered_batches_are_noted(refused: RefusedBatches, records: memoryview | None) -> None:
    refused.note("t", 0, records, NOT_LEADER)
    assert not refused.any


def test_a_name_that_no_topic_can_have_is_not_kept(refused: RefusedBatches) -> None:
    refused.note("t" * 250, 0, sent(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not refused.any
    refused.note("t" * 249, 0, sent(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert refused.any


def test_a_short_batch_has_no_producer(refused: RefusedBatches) -> None:
    assert refused.before("t", 0, memoryview(b"short")) is None


def test_a_note_lasts_some_seconds(refused: RefusedBatches, services: FakeServices) -> None:
    services.advance(1)
    refused.note("t", 0, sent(), NOT_LEADER)
    services.advance(NOTED_MS - 1)
    refused.note("t", 0, sent(5), NOT_LEADER)
    services.advance(NOTED_MS)
    assert refused.before("t", 0, sent(9)) == {0: NOT_LEADER, 5: NOT_LEADER}
    services.advance(1)
    assert not refused.any
    assert not services.timers


@pytest.mark.parametrize("aged", [False, True])
def test_what_is_appended_drops_the_notes_before_it(
    refused: RefusedBatches, services: FakeServices, aged: bool
) -> None:
    for sequence in (0, 5, 9, SEQUENCE_MASK):  # The last one comes before 0.
        refused.note("t", 0, sent(sequence), NOT_LEADER)
    refused.note("t", 1, sent(0), NOT_LEADER)
    if aged:
        services.advance(NOTED_MS)
    refused.appended("t", 0, sent(5))
    assert refused.before("t", 0, sent(12)) == {9: NOT_LEADER}
    assert refused.before("t", 1, sent(12)) == {0: NOT_LEADER}


def test_a_note_is_not_prolonged_by_those_of_later_batches(
    refused: RefusedBatches, services: FakeServices
) -> None:
    """Otherwise a lost batch would never be reported to a producer that sends the next one again and
    again.
    """
    refused.note("t", 0, sent(), NOT_LEADER)
    for _ in range(20):
        services.advance(NOTED_MS // 10)
        refused.note("t", 0, sent(5), NOT_LEADER)
    services.advance(1)
    assert refused.before("t", 0, sent(9)) == {5: NOT_LEADER}


def test_the_newest_five_of_a_producer_are_noted(refused: RefusedBatches) -> None:
    for sequence in (0, 1, 2, 3, 4, 0, 5):
        refused.note("t", 0, sent(sequence), NOT_LEADER)
    assert list(refused.before("t", 0, sent(9)) or ()) == [2, 3, 4, 0, 5]


def test_the_number_of_producers_is_limited(refused: RefusedBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_batches, "PRODUCERS_MAX", 3)
    for producer_id in range(8):
        refused.note("t", 0, sent(0, producer_id), NOT_LEADER)
    known = [producer_id for producer_id in range(8) if refused.before("t", 0, sent(9, producer_id))]
    assert known == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        # The later batch has certainly not been written, and is not damaged.
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NOT_ENOUGH_REPLICAS),
        # The first is not sent again.
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_what_later_batches_are_told(refused: RefusedBatches, error: ErrorCode, told: ErrorCode) -> None:
    refused.note("t", 0, sent(), error)
    assert refused.before("t", 0, sent(1)) == {0: told}
