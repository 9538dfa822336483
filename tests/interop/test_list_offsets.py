"""Offset lookups: earliest, latest, by time, newest timestamp; at the wire and through the clients."""

import asyncio
import uuid
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, OffsetSpec
from kio.schema.errors import ErrorCode

import kafka

from . import calls
from .conftest import CreateTopic
from .records import batch
from .wire import Wire

pytestmark = pytest.mark.interop

START_MS = 4_000_000_000_000  # far from any retention; message.timestamp.after.max.ms must allow the future


@pytest.fixture(scope="module")
def timed_topic(bootstrap: str) -> str:
    """Ten batches of two records, one second between records, in three segments. Tests only read it."""
    topic = f"timed-{uuid.uuid4().hex[:8]}"
    with Wire(bootstrap) as wire:
        fill(wire, topic)
    return topic


def fill(wire: Wire, topic: str) -> None:
    configs = {"segment_bytes": 1 << 20, "message_timestamp_after_max_ms": 2**62}
    calls.create_topic(wire, topic, configs=configs)
    for number in range(10):
        at = START_MS + 2000 * number
        data = batch(b"x" * 150_000, b"y" * 150_000, timestamps_ms=[at, at + 1000])
        assert calls.produce(wire, topic, bytes(data)).error_code is ErrorCode.none


def test_earliest_and_latest(wire: Wire, timed_topic: str) -> None:
    assert calls.list_offset(wire, timed_topic, calls.EARLIEST).offset == 0
    assert calls.list_offset(wire, timed_topic, calls.LATEST).offset == 20


def test_an_empty_log_starts_and_ends_at_zero(wire: Wire, topic: str) -> None:
    assert calls.list_offset(wire, topic, calls.EARLIEST).offset == 0
    assert calls.list_offset(wire, topic, calls.LATEST).offset == 0


def test_earliest_is_the_log_start_after_deleting_records(wire: Wire) -> None:
    topic = f"timed-{uuid.uuid4().hex[:8]}"
    fill(wire, topic)
    request = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 7}]}]
    wire.call("delete_records", 2, topics=request, timeout=30_000)
    assert calls.list_offset(wire, topic, calls.EARLIEST).offset == 7
    assert calls.list_offset(wire, topic, calls.EARLIEST_LOCAL).offset == 7


@pytest.mark.parametrize(
    ("after_ms", "offset"), [(-10, 0), (0, 0), (1, 1), (1000, 1), (7000, 7), (7001, 8), (19_000, 19)]
)
def test_by_time_finds_the_first_record_not_before_it(
    wire: Wire, timed_topic: str, after_ms: int, offset: int
) -> None:
    answer = calls.list_offset(wire, timed_topic, START_MS + after_ms)
    assert answer.error_code is ErrorCode.none
    assert (answer.offset, answer.timestamp) == (offset, START_MS + 1000 * offset)


def test_by_time_past_the_newest_finds_nothing(wire: Wire, timed_topic: str) -> None:
    answer = calls.list_offset(wire, timed_topic, START_MS + 19_001)
    assert answer.error_code is ErrorCode.none
    assert (answer.offset, answer.timestamp) == (-1, -1)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "snappy"])
def test_by_time_looks_inside_a_batch(wire: Wire, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(message_timestamp_after_max_ms=2**62)
    times = [START_MS + 10 * n for n in range(100)]
    calls.produce(wire, topic, bytes(batch(*[b"x" * 50] * 100, timestamps_ms=times, codec=codec)))
    assert calls.list_offset(wire, topic, START_MS + 455).offset == 46


def test_by_time_where_time_runs_backwards(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(message_timestamp_after_max_ms=2**62)
    for at in (5000, 1000, 9000, 3000):
        calls.produce(wire, topic, bytes(batch(b"x", timestamps_ms=[START_MS + at])))
    assert calls.list_offset(wire, topic, START_MS + 4000).offset == 0
    assert calls.list_offset(wire, topic, START_MS + 6000).offset == 2


def test_max_timestamp_is_the_newest_record_wherever_it_lies(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(message_timestamp_after_max_ms=2**62)
    calls.produce(wire, topic, bytes(batch(b"a", b"b", timestamps_ms=[START_MS, START_MS + 9000])))
    calls.produce(wire, topic, bytes(batch(b"c", timestamps_ms=[START_MS + 5000])))
    answer = calls.list_offset(wire, topic, calls.MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (1, START_MS + 9000)


def test_max_timestamp_of_an_empty_log(wire: Wire, topic: str) -> None:
    answer = calls.list_offset(wire, topic, calls.MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (-1, -1)


def test_unknown_topic_and_partition(wire: Wire, topic: str) -> None:
    for name, partition in (("no-such-topic", 0), (topic, 1), (topic, -1)):
        answer = calls.list_offset(wire, name, calls.LATEST, partition=partition)
        assert answer.error_code is ErrorCode.unknown_topic_or_partition, (name, partition)


def test_the_leader_epoch_comes_with_the_offset(wire: Wire, timed_topic: str) -> None:
    epoch = calls.metadata(wire, timed_topic).partitions[0].leader_epoch
    assert calls.list_offset(wire, timed_topic, calls.LATEST).leader_epoch == epoch
    assert calls.list_offset(wire, timed_topic, START_MS).leader_epoch == epoch


def test_confluent(bootstrap: str, timed_topic: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        place = confluent_kafka.TopicPartition(timed_topic, 0)
        assert consumer.get_watermark_offsets(place, timeout=30) == (0, 20)
        at = confluent_kafka.TopicPartition(timed_topic, 0, START_MS + 6500)
        (by_time,) = consumer.offsets_for_times([at], timeout=30)
        assert by_time.offset == 7
    finally:
        consumer.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest: Callable[[], OffsetSpec] = OffsetSpec.max_timestamp
    (newest,) = admin.list_offsets({place: latest()}).values()
    assert newest.result().offset == 19


def test_kafka_python(bootstrap: str, timed_topic: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        place = kafka.TopicPartition(timed_topic, 0)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 20}
        by_time = consumer.offsets_for_times({place: START_MS + 6500})[place]
        assert (by_time.offset, by_time.timestamp) == (7, START_MS + 7000)
    finally:
        consumer.close()


def test_aiokafka(bootstrap: str, timed_topic: str) -> None:
    async def run() -> None:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
            place = aiokafka.TopicPartition(timed_topic, 0)
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 20}
            by_time = (await consumer.offsets_for_times({place: START_MS + 6500}))[place]
            assert (by_time.offset, by_time.timestamp) == (7, START_MS + 7000)

    asyncio.run(run())
