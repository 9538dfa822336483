"""Timestamps: the producer's (CreateTime), the broker's (LogAppendTime), and the ones too far off."""

import time

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .clients import CLIENTS, Client, Message
from .conftest import CreateTopic
from .records import CODECS, batch, batches, records
from .wire import Wire

pytestmark = pytest.mark.interop

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


def now_ms() -> int:
    return int(time.time() * 1000)


@every_client
def test_create_time_is_the_producers(client: Client, bootstrap: str, topic: str) -> None:
    start = now_ms() - 60_000
    sent = [Message(None, str(n).encode(), timestamp_ms=start + n) for n in range(20)]
    client.produce(bootstrap, topic, sent)
    for reader in CLIENTS:
        received = reader.consume(bootstrap, topic, 20)
        assert [record.timestamp_ms for record in received] == [start + n for n in range(20)], reader.name


@every_client
def test_log_append_time_is_the_brokers(client: Client, bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(message_timestamp_type="LogAppendTime")
    before = now_ms()
    client.produce(bootstrap, topic, [Message(None, b"v", timestamp_ms=before - 86_400_000)] * 5)
    for reader in CLIENTS:
        for record in reader.consume(bootstrap, topic, 5):
            assert before <= record.timestamp_ms <= now_ms(), reader.name


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_told_to_the_producer(wire: Wire, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(message_timestamp_type="LogAppendTime")
    answer = calls.produce(wire, topic, bytes(batch(b"a" * 100, b"b" * 100, codec=codec)))
    assert answer.error_code is ErrorCode.none
    told = round(answer.log_append_time.timestamp() * 1000)
    fetched = calls.fetch(wire, topic, 0).records
    (stored,) = batches(fetched)
    assert stored.timestamp_type == 1
    assert stored.max_timestamp == told
    assert {record.timestamp_ms for record in records(fetched)} == {told}
    assert calls.list_offset(wire, topic, told).offset == 0
    assert calls.list_offset(wire, topic, told + 1).offset == -1


@pytest.mark.parametrize("off_ms", [-10_000, 10_000])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_too_far_off(wire: Wire, create_topic: CreateTopic, off_ms: int, codec: str) -> None:
    topic = create_topic(message_timestamp_before_max_ms=5000, message_timestamp_after_max_ms=5000)
    at = now_ms() + off_ms
    refused = calls.produce(wire, topic, bytes(batch(b"v", timestamps_ms=[at], codec=codec)))
    assert refused.error_code is ErrorCode.invalid_timestamp
    assert calls.end_offset(wire, topic) == 0
    assert calls.produce(wire, topic, bytes(batch(b"v"))).error_code is ErrorCode.none


def test_one_record_too_far_off_refuses_the_whole_batch(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(message_timestamp_before_max_ms=5000)
    now = now_ms()
    data = batch(b"fine", b"old", b"fine", timestamps_ms=[now, now - 60_000, now])
    refused = calls.produce(wire, topic, bytes(data))
    assert refused.error_code is ErrorCode.invalid_timestamp
    assert [error.batch_index for error in refused.record_errors] == [1]
    assert calls.end_offset(wire, topic) == 0


def test_an_hour_into_the_future_is_the_default_limit(wire: Wire, topic: str) -> None:
    near, far = now_ms() + 1_800_000, now_ms() + 7_200_000
    assert calls.produce(wire, topic, bytes(batch(b"v", timestamps_ms=[near]))).error_code is ErrorCode.none
    refused = calls.produce(wire, topic, bytes(batch(b"v", timestamps_ms=[far])))
    assert refused.error_code is ErrorCode.invalid_timestamp
