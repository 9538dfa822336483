"""A producer has several requests in flight, and some are refused: whatever the pattern, the log holds its
batches in order and without a gap.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop.records import batch
from interop.wire import parse_response
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.log.scan import headers
from tidelog.protocol.batch import BatchHeader, parse_header
from unit.broker.fakes import NOW_MS, FakeBroker, request_body

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
RETRIED = {NOT_LEADER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR}
VERSION = 12


def sent(sequence: int, records: int = 2, producer_id: int = 7, epoch: int = 0) -> bytes:
    numbers = (producer_id, epoch, sequence)
    values = [b"%d" % (sequence + place) for place in range(records)]
    return bytes(batch(*values, producer=numbers, timestamps_ms=[NOW_MS] * records))


def errors_of(answers: list[Any]) -> list[ErrorCode]:
    (answer,) = answers
    return [ErrorCode(each.error_code) for topic in answer.responses for each in topic.partition_responses]


def produce(broker: FakeBroker, *parts: tuple[str, int, bytes], version: int = VERSION) -> list[ErrorCode]:
    answers = broker.produce(*parts, version=version)
    broker.services.settle()
    return errors_of(answers)


def lead(broker: FakeBroker, *, leads: bool, partition: int = 0) -> None:
    """The next leader is this broker, or another one."""
    place = broker.partition("t", partition)
    replica, driver = place.replica, place.driver
    epoch, partition_epoch = replica.epoch + 1, replica.partition_epoch + 1
    if leads:
        driver.lead(epoch, (1, 2), (1,), partition_epoch)
    else:
        driver.follow(epoch, 2, (1, 2), partition_epoch)
    broker.services.settle()


def written(broker: FakeBroker, partition: int = 0) -> list[BatchHeader]:
    (segment,) = broker.partition("t", partition).log.segments
    return [each for _, each in headers(segment.file(), 0, segment.size) if each.producer_id >= 0]


def sequences(broker: FakeBroker, partition: int = 0) -> list[int]:
    return [header.base_sequence for header in written(broker, partition)]


@pytest.fixture
def following(broker: FakeBroker) -> FakeBroker:
    broker.create("t", 2)
    for partition in range(2):
        lead(broker, leads=False, partition=partition)
    return broker


class TestNewLeader:
    @pytest.mark.parametrize("version", [9, 12, 13])
    def test_the_first_batches_of_a_producer(self, following: FakeBroker, version: int) -> None:
        assert produce(following, ("t", 0, sent(0)), version=version) == [NOT_LEADER]
        lead(following, leads=True)
        for sequence in (2, 4):
            assert produce(following, ("t", 0, sent(sequence)), version=version) == [NOT_LEADER]
        for sequence in (0, 2, 4, 6):
            assert produce(following, ("t", 0, sent(sequence)), version=version) == [NONE]
        assert sequences(following) == [0, 2, 4, 6]

    def test_a_known_producer(self, following: FakeBroker) -> None:
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(0))) == [NONE]
        lead(following, leads=False)
        assert produce(following, ("t", 0, sent(2))) == [NOT_LEADER]
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(4))) == [NOT_LEADER]
        # The retry of the first arrives before the last of those that were under way.
        assert produce(following, ("t", 0, sent(2))) == [NONE]
        assert produce(following, ("t", 0, sent(6))) == [NOT_LEADER]
        assert [produce(following, ("t", 0, sent(each)))[0] for each in (4, 6)] == [NONE, NONE]

    def test_a_partition_that_is_not_open_yet(self, broker: FakeBroker) -> None:
        assert produce(broker, ("t", 0, sent(0))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        broker.create("t")
        assert produce(broker, ("t", 0, sent(2))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert produce(broker, ("t", 0, sent(0))) == [NONE]

    def test_one_partition_of_several(self, following: FakeBroker) -> None:
        lead(following, leads=True, partition=1)
        assert produce(following, ("t", 0, sent(0)), ("t", 1, sent(0))) == [NOT_LEADER, NONE]
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(2)), ("t", 1, sent(2))) == [NOT_LEADER, NONE]
        assert produce(following, ("t", 0, sent(0)), ("t", 0, sent(2)), ("t", 1, sent(4))) == [NONE] * 3
        assert sequences(following) == [0, 2]
        assert sequences(following, 1) == [0, 2, 4]

    def test_other_producers_and_epochs_are_not_concerned(self, following: FakeBroker) -> None:
        assert produce(following, ("t", 0, sent(0))) == [NOT_LEADER]
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(2, producer_id=8))) == [NONE]
        assert produce(following, ("t", 0, sent(0, epoch=1))) == [NONE]

    def test_after_some_seconds_a_missing_batch_is_lost(self, following: FakeBroker) -> None:
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(0))) == [NONE]
        lead(following, leads=False)
        assert produce(following, ("t", 0, sent(2))) == [NOT_LEADER]
        lead(following, leads=True)
        told = []
        for _ in range(12):
            told += produce(following, ("t", 0, sent(4)))
            following.services.advance(1000)
        assert told == [NOT_LEADER] * 10 + [OUT_OF_ORDER] * 2

    def test_a_request_of_the_same_shape(self, following: FakeBroker) -> None:
        def body(records: bytes) -> memoryview:
            data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
            fields = {"acks": -1, "timeout": 30_000, "topic_data": data}
            return memoryview(bytearray(b"head" * 2 + request_body(0, VERSION, fields)))

        def heard(handle: Callable[..., Any], *request: Any) -> tuple[list[ErrorCode], Any]:
            frames: list[Any] = []
            shape = handle(*request, RequestContext(0, VERSION, 7, "test", "peer"), frames.append)
            following.services.settle()
            return errors_of([parse_response(bytes(frames[0][4:]), "produce", VERSION, 7)]), shape

        handler = following.producing
        told, shape = heard(handler.handle, body(sent(0)), 8)
        assert told == [NOT_LEADER]
        lead(following, leads=True)
        for sequence, expected in ((2, NOT_LEADER), (0, NONE), (2, NONE)):
            records = shape.records_of(body(sent(sequence)))
            assert heard(handler.handle_repeated, shape, records)[0] == [expected]

    def test_written_but_not_acknowledged_is_no_refusal(self, following: FakeBroker) -> None:
        lead(following, leads=True)
        place = following.partition("t")
        place.driver.lead(place.leader_epoch + 1, (1, 2), (1, 2), place.replica.partition_epoch + 1)
        answers = following.produce(("t", 0, sent(0)))
        lead(following, leads=False)
        assert errors_of(answers) == [NOT_LEADER]
        assert not following.broker.partitions.refused.any
        lead(following, leads=True)
        assert produce(following, ("t", 0, sent(2))) == [NONE]
        assert sequences(following) == [0, 2]


def test_a_batch_that_is_refused_for_good_leaves_a_gap(broker: FakeBroker) -> None:
    broker.create("t", max_message_bytes=1000)
    assert produce(broker, ("t", 0, sent(0, 200))) == [ErrorCode.MESSAGE_TOO_LARGE]
    assert produce(broker, ("t", 0, sent(200))) == [OUT_OF_ORDER]
    # The Java client now numbers the following batches anew.
    assert produce(broker, ("t", 0, sent(0))) == [NONE]


@given(st.data())
@pytest.mark.slow
def test_any_pattern_of_refusals(data: st.DataObject) -> None:
    """A client with five requests in flight on one connection, which sends refused batches again in order, as
    librdkafka does. Leaders come and go between any two requests.
    """
    broker = FakeBroker()
    broker.create("t", 2)
    start = data.draw(st.sampled_from([0, 6, (1 << 31) - 5]), "first sequence")
    count = 8
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count), "batches")
    numbers = [(start + sum(sizes[:place])) % (1 << 31) for place in range(count)]
    unsettled = list(range(count))  # to be sent, in order
    in_flight: list[int] = []
    answers: list[tuple[int, ErrorCode]] = []  # on their way to the client
    for _ in range(60):
        event = data.draw(st.sampled_from(["send", "send", "arrive", "arrive", "answer", "lead", "follow"]))
        if event == "send" and len(in_flight) + len(answers) < 5:
            under_way = [*in_flight, *(number for number, _ in answers)]
            waiting = [number for number in unsettled if number not in under_way]
            in_flight += waiting[:1]
        elif event == "arrive" and in_flight:
            number = in_flight.pop(0)
            (error,) = produce(broker, ("t", 0, sent(numbers[number], sizes[number])))
            answers.append((number, error))
        elif event == "answer" and answers:
            number, error = answers.pop(0)
            assert error in RETRIED | {NONE}, (number, error)
            if error is NONE:
                unsettled.remove(number)
        elif event in {"lead", "follow"}:
            lead(broker, leads=event == "lead")
    found = written(broker)
    assert [header.base_sequence for header in found] == numbers[: len(found)]
    assert all(parse_header(sent(numbers[place], sizes[place])).count == header.count
               for place, header in enumerate(found))  # fmt: skip
