"""Idempotent producers at the broker: their ids, what their batches are answered, what is told of them."""

from typing import Any

import pytest
from fakes import NOW_MS, FakeBroker, records, value_of

from interop.records import batch
from tidelog.controller.producer_ids import BLOCK_SIZE
from tidelog.errors import ErrorCode, StorageError
from tidelog.protocol.batch import TRANSACTIONAL_MASK, parse_header

VERSIONS = range(7)


def grant(broker: FakeBroker, version: int | None = None, **more: Any) -> Any:
    request = {"transactional_id": None, "transaction_timeout": 60_000, **more}
    return broker.call("init_producer_id", version, **request)


def sent(*values: bytes, producer: tuple[int, int, int] = (7, 0, 0), at_ms: int = NOW_MS) -> bytes:
    return bytes(batch(*values, producer=producer, timestamps_ms=[at_ms] * len(values)))


def produce(broker: FakeBroker, data: bytes, topic: str = "t") -> Any:
    answers = broker.produce((topic, 0, data))
    broker.services.settle()
    (answer,) = answers
    return answer.responses[0].partition_responses[0]


class TestIds:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_every_version(self, broker: FakeBroker, version: int) -> None:
        answer = grant(broker, version)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)

    def test_none_is_given_twice(self, broker: FakeBroker) -> None:
        ids = [grant(broker).producer_id for _ in range(BLOCK_SIZE + 10)]
        assert ids == list(range(BLOCK_SIZE + 10))
        assert broker.store.image.next_producer_id == 2 * BLOCK_SIZE

    def test_what_a_stopped_broker_had_left_is_lost(self, broker: FakeBroker) -> None:
        assert grant(broker).producer_id == 0
        following = FakeBroker()
        following.store.submit = broker.store.submit  # type: ignore[method-assign]
        assert grant(following).producer_id == BLOCK_SIZE

    def test_given_only_when_reserved_for_good(self, broker: FakeBroker) -> None:
        broker.store.held = True
        request = {"transactional_id": None, "transaction_timeout": 60_000}
        waiting = [broker.begin("init_producer_id", **request) for _ in range(3)]
        assert not any(future.is_complete for future in waiting)
        broker.services.settle()
        assert not any(future.is_complete for future in waiting)
        broker.store.held = False
        broker.store.commit()
        assert [value_of(future).producer_id for future in waiting] == [0, 1, 2]
        assert broker.store.image.next_producer_id == BLOCK_SIZE

    def test_no_controller_no_id(self, broker: FakeBroker) -> None:
        broker.store.failure = StorageError("the disk is gone")
        answer = grant(broker)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        broker.store.failure = None
        assert grant(broker).producer_id == 0

    def test_who_has_one_gets_a_new_one(self, broker: FakeBroker) -> None:
        first = grant(broker).producer_id
        again = grant(broker, producer_id=first, producer_epoch=3)
        assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first + 1, 0)

    @pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 0}])
    def test_half_an_identity_is_refused(self, broker: FakeBroker, half: dict[str, int]) -> None:
        both = {"producer_id": -1, "producer_epoch": -1, **half}
        assert grant(broker, **both).error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_empty_transactional_id_is_refused(self, broker: FakeBroker, version: int) -> None:
        assert grant(broker, version, transactional_id="").error_code == ErrorCode.INVALID_REQUEST
        assert broker.store.image.next_producer_id == 0


class TestProducing:
    @pytest.fixture(autouse=True)
    def topic(self, broker: FakeBroker) -> None:
        broker.create("t")

    def test_a_duplicate_is_answered_with_the_original(self, broker: FakeBroker) -> None:
        broker.append("t", b"before")
        data = sent(b"a", b"b")
        for _ in range(3):
            answer = produce(broker, data)
            assert (answer.error_code, answer.base_offset, answer.log_append_time) == (0, 1, None)
        assert broker.partition("t").log.end_offset == 3

    def test_also_in_a_request_for_many_partitions(self, broker: FakeBroker) -> None:
        broker.create("u")
        data = sent(b"a")
        for _ in range(2):
            (answer,) = broker.produce(("t", 0, data), ("u", 0, data))
            parts = [topic.partition_responses[0] for topic in answer.responses]
            assert [(part.error_code, part.base_offset) for part in parts] == [(0, 0), (0, 0)]

    def test_the_original_append_time(self, broker: FakeBroker) -> None:
        broker.create("stamped", message_timestamp_type="LogAppendTime")
        first = produce(broker, sent(b"a"), "stamped")
        broker.services.advance(5000)
        again = produce(broker, sent(b"a"), "stamped")
        assert first.log_append_time is not None
        assert again.log_append_time == first.log_append_time

    def test_a_duplicate_waits_until_the_original_is_durable(self, broker: FakeBroker) -> None:
        broker.create("durable", flush_messages=1)
        broker.services.held = True
        data = sent(b"a")
        first, again = broker.produce(("durable", 0, data)), broker.produce(("durable", 0, data))
        broker.services.settle()
        assert (first, again) == ([], [])
        broker.services.held = False
        broker.services.settle()
        for (answer,) in (first, again):
            part = answer.responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (0, 0)
        assert broker.partition("durable").log.end_offset == 1

    @pytest.mark.parametrize(
        ("producer", "code"),
        [
            ((7, 1, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ((7, 2, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ((7, 0, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
            ((7, 1, -1), ErrorCode.INVALID_RECORD),
        ],
    )
    def test_refusals(self, broker: FakeBroker, producer: tuple[int, int, int], code: ErrorCode) -> None:
        assert produce(broker, sent(b"a", producer=(7, 1, 0))).error_code == 0
        refused = produce(broker, sent(b"b", producer=producer))
        assert (refused.error_code, refused.base_offset) == (code, -1)
        assert refused.error_message
        assert broker.partition("t").log.end_offset == 1
        assert produce(broker, sent(b"b", producer=(7, 1, 1))).base_offset == 1

    def test_records_of_a_transaction_nobody_began(self, broker: FakeBroker) -> None:
        from tidelog.protocol.batch import build

        header = parse_header(sent(b"a"))
        body = sent(b"a")[61:]
        data = build(
            body, base_offset=0, last_offset_delta=0, count=1, base_timestamp=NOW_MS, max_timestamp=NOW_MS,
            attributes=header.attributes | TRANSACTIONAL_MASK, producer_id=7, producer_epoch=0,
            base_sequence=0,
        )  # fmt: skip
        assert produce(broker, bytes(data)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    def test_recompressed_batches_are_recognised(self, broker: FakeBroker) -> None:
        broker.create("packed", compression_type="gzip")
        data = sent(b"a" * 100)
        assert [produce(broker, data, "packed").base_offset for _ in range(2)] == [0, 0]

    def test_expiry_follows_the_setting_of_a_running_broker(self, broker: FakeBroker) -> None:
        produce(broker, sent(b"a"))
        change = {"name": "producer.id.expiration.ms", "config_operation": 0, "value": "50"}
        resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
        (result,) = broker.call("incremental_alter_configs", resources=[resource]).responses
        assert result.error_code == 0
        broker.services.advance(49)
        assert produce(broker, sent(b"z", producer=(7, 0, 9))).error_code == (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        )
        broker.services.advance(1)
        assert produce(broker, sent(b"z", producer=(7, 0, 9))).error_code == 0


class TestDescribing:
    def describe(self, broker: FakeBroker, topic: str, index: int = 0) -> Any:
        topics = [{"name": topic, "partition_indexes": [index]}]
        (found,) = broker.call("describe_producers", topics=topics).topics
        return found.partitions[0]

    def test_who_writes_here(self, broker: FakeBroker) -> None:
        broker.create("t")
        produce(broker, records(b"nobody"))
        produce(broker, sent(b"a", b"b", producer=(7, 3, 0)))
        broker.services.advance(10)
        produce(broker, sent(b"a", producer=(9, 0, 4)))
        found = self.describe(broker, "t")
        assert found.error_code == 0
        told = [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
            for each in found.active_producers
        ]
        assert told == [(7, 3, 1, NOW_MS), (9, 0, 4, NOW_MS + 10)]

    def test_silent_ones_are_not_told(self, broker: FakeBroker) -> None:
        broker.create("t")
        produce(broker, sent(b"a"))
        broker.services.advance(86_400_000)
        assert self.describe(broker, "t").active_producers == ()

    def test_unknown_partitions(self, broker: FakeBroker) -> None:
        broker.create("t")
        for topic, index in (("t", 1), ("nowhere", 0)):
            found = self.describe(broker, topic, index)
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
