"""A refused batch tells which of its records are wrong, and a client can drop those and keep the others."""

import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import CODECS, batch
from .wire import Wire

pytestmark = pytest.mark.interop

WITHOUT_KEY = range(3, 100, 10)


@pytest.mark.parametrize("codec", CODECS)
def test_records_without_keys_are_named(wire: Wire, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(cleanup_policy="compact")
    keys = [None if number in WITHOUT_KEY else b"k" for number in range(100)]
    refused = calls.produce(wire, topic, bytes(batch(*[b"v"] * 100, keys=keys, codec=codec)))
    assert refused.error_code is ErrorCode.invalid_record
    assert refused.error_message
    assert [each.batch_index for each in refused.record_errors] == list(WITHOUT_KEY)
    assert all("key" in each.batch_index_error_message for each in refused.record_errors)
    assert calls.end_offset(wire, topic) == 0


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("off_ms", [-60_000, 60_000])
def test_records_with_wrong_times_are_named(
    wire: Wire, create_topic: CreateTopic, codec: str, off_ms: int
) -> None:
    topic = create_topic(
        cleanup_policy="compact", message_timestamp_before_max_ms=5000, message_timestamp_after_max_ms=5000
    )
    now = int(time.time() * 1000)
    times, keys = [now, now + off_ms, now, -1], [b"k", b"k", None, b"k"]
    data = batch(*[b"v"] * 4, keys=keys, timestamps_ms=times, codec=codec)
    refused = calls.produce(wire, topic, bytes(data))
    assert refused.error_code is ErrorCode.invalid_timestamp
    told = {each.batch_index: each.batch_index_error_message for each in refused.record_errors}
    assert set(told) == {1, 2}
    assert str(now + off_ms) in told[1]
    assert "key" in told[2]
    assert calls.end_offset(wire, topic) == 0


def test_the_default_limit_of_the_future_names_records_too(wire: Wire, topic: str) -> None:
    now = int(time.time() * 1000)
    data = batch(*[b"v"] * 400, timestamps_ms=[now] * 399 + [now + 7_200_000], codec="zstd")
    refused = calls.produce(wire, topic, bytes(data))
    assert refused.error_code is ErrorCode.invalid_timestamp
    assert [each.batch_index for each in refused.record_errors] == [399]


def test_a_real_client_keeps_the_others(bootstrap: str, wire: Wire, create_topic: CreateTopic) -> None:
    """librdkafka tells the records that were wrong from those that were only in the same batch."""
    topic = create_topic(cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10_000, "acks": "all"})
    told: dict[bytes, int] = {}

    def reported(error: KafkaError | None, message: Message) -> None:
        told[message.value() or b""] = KafkaError.NO_ERROR if error is None else error.code()

    def send(numbers: list[int]) -> None:
        for number in numbers:
            with_key = number not in WITHOUT_KEY
            producer.produce(topic, b"%d" % number, b"k" if with_key else None, on_delivery=reported)
        assert producer.flush(60) == 0

    send(list(range(100)))
    assert [int(value) for value, code in told.items() if code == KafkaError.INVALID_RECORD] == list(
        WITHOUT_KEY
    )
    others = [int(value) for value, code in told.items() if code == KafkaError._INVALID_DIFFERENT_RECORD]
    assert len(others) == 90
    send(others)
    assert [told[b"%d" % number] for number in others] == [KafkaError.NO_ERROR] * 90
    assert calls.end_offset(wire, topic) == 90
