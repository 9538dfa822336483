"""Idempotent producers at the broker: what their batches are answered."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol.batch import TRANSACTIONAL_MASK, parse_header
from unit.broker.fakes import NOW_MS, FakeBroker
from unit.broker.handlers.idempotent_producers import produce, sent


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
