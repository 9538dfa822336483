"""Batches whose headers say what is not so: refused where they are sent, and no obstacle where they lie."""

import asyncio
import struct
import time
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .clients import CLIENTS, Client, Message
from .records import CODECS, HEADER_SIZE, batch, records, reseal
from .wire import Wire

pytestmark = pytest.mark.interop

HUGE = 2**31 - 1
ATTRIBUTES_LOW, COUNT, LAST_DELTA, BASE_TIME, MAX_TIME = 22, 57, 23, 27, 35
WITHIN_S = 60.0


def claiming(count: int, data: bytearray | None = None) -> bytearray:
    """A batch, of one record where none is given, that says it has so many."""
    data = batch(b"v") if data is None else data
    struct.pack_into(">i", data, COUNT, count)
    struct.pack_into(">i", data, LAST_DELTA, count - 1)
    return reseal(data)


def of_body(body: bytes, count: int = 1) -> bytearray:
    data = batch(b"v")[:HEADER_SIZE] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    return claiming(count, data)


def changed(data: bytearray, at: int, byte: int) -> bytearray:
    data[at] = byte
    return reseal(data)


def second_offset_delta(delta: int) -> bytearray:
    data = batch(b"v", b"w")
    at = HEADER_SIZE + (len(data) - HEADER_SIZE) // 2 + 3
    assert data[at] == 2
    return changed(data, at, 2 * delta)


LIES = {
    "a hundred bytes with 2^31-1 records": lambda: claiming(HUGE),
    "one record more than there are": lambda: claiming(3, batch(b"a", b"b")),
    "one record less than there are": lambda: claiming(1, batch(b"a", b"b")),
    "a body of ones": lambda: of_body(b"\xff" * 40, 3),
    "a body of zeros": lambda: of_body(bytes(40), 5),
    "no body": lambda: of_body(b"", 1),
    "a record longer than the batch": lambda: changed(batch(b"v" * 20), HEADER_SIZE, 0x7E),
    "a record of negative length": lambda: changed(batch(b"v" * 20), HEADER_SIZE, 0x01),
    "a key longer than its record": lambda: changed(batch(b"v" * 20), HEADER_SIZE + 4, 0x7C),
    "a value longer than its record": lambda: changed(batch(b"v" * 20), HEADER_SIZE + 5, 0x7C),
    "an offset delta twice": lambda: second_offset_delta(0),
    "an offset delta left out": lambda: second_offset_delta(2),
    "one record less than there are of very many": lambda: claiming(99_999, batch(*[b""] * 100_000)),
    "one record more than there are of very many": lambda: claiming(5001, batch(*[b"", b"v"] * 2500)),
    "many records of which the last is cut": lambda: of_body(
        bytes(batch(*[b"v" * 90] * 500))[HEADER_SIZE:-9], 500
    ),
}


@pytest.mark.not_kafka  # It refuses most of them without a reason, and takes wrong offset deltas.
@pytest.mark.parametrize("lie", sorted(LIES))
@pytest.mark.parametrize("version", [3, 8, 12])
def test_a_lie_is_refused_and_leaves_nothing(wire: Wire, topic: str, lie: str, version: int) -> None:
    calls.produce(wire, topic, bytes(batch(b"before")))
    answer = calls.produce(wire, topic, bytes(LIES[lie]()), version=version)
    assert answer.error_code in (ErrorCode.invalid_record, ErrorCode.corrupt_message), answer
    if version >= 8:
        assert answer.error_message
    assert calls.end_offset(wire, topic) == 1
    assert calls.produce(wire, topic, bytes(batch(b"behind"))).base_offset == 1


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none"}))
def test_more_records_than_compression_can_hide(wire: Wire, topic: str, codec: str) -> None:
    answer = calls.produce(wire, topic, bytes(claiming(HUGE, batch(b"v", codec=codec))))
    assert answer.error_code in (ErrorCode.invalid_record, ErrorCode.corrupt_message), answer
    assert calls.end_offset(wire, topic) == 0


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none", "snappy"}))
def test_records_that_are_not_compressed(wire: Wire, topic: str, codec: str) -> None:
    """librdkafka would read no further. Snappy has no mark by which this could be seen."""
    data = batch(b"a", b"b")
    data[ATTRIBUTES_LOW] = CODECS[codec]
    answer = calls.produce(wire, topic, bytes(reseal(data)))
    assert answer.error_code is not ErrorCode.none
    assert calls.end_offset(wire, topic) == 0


@pytest.mark.parametrize("claim_ms", [-5, 5_000])
def test_a_false_largest_timestamp_is_put_right(wire: Wire, topic: str, claim_ms: int) -> None:
    now_ms = int(time.time() * 1000)
    data = batch(b"a", b"b", timestamps_ms=[now_ms - 10, now_ms])
    struct.pack_into(">q", data, MAX_TIME, now_ms + claim_ms)
    assert calls.produce(wire, topic, bytes(reseal(data))).error_code is ErrorCode.none
    stored = bytes(calls.fetch(wire, topic, 0).records)
    assert struct.unpack_from(">q", stored, MAX_TIME) == (now_ms,)
    assert [record.timestamp_ms for record in records(stored)] == [now_ms - 10, now_ms]
    found = calls.list_offset(wire, topic, now_ms - 2)
    assert (found.offset, found.timestamp) == (1, now_ms)
    assert calls.list_offset(wire, topic, now_ms + 1).offset == -1


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_true_batches_of_every_client_are_taken(
    bootstrap: str, topic: str, client: Client, codec: str
) -> None:
    sent = [
        Message(None if n % 3 else b"k%d" % n, b"v" * (n % 200), [("h", b"x")] * (n % 2)) for n in range(400)
    ]
    assert client.produce(bootstrap, topic, sent, codec=codec) == list(range(400))
    alike = [Message(b"k%04d" % n, b"v" * 100) for n in range(400)]
    assert client.produce(bootstrap, topic, alike, codec=codec) == list(range(400, 800))
    found = client.consume(bootstrap, topic, 800)
    assert [record.value for record in found] == [message.value for message in [*sent, *alike]]


# -- what an earlier version has let in ----------------------------------------------


OLD_LIES = {
    "a body of ones": LIES["a body of ones"],
    # A little less, as offsets of one segment have to lie within 2^31.
    "a hundred bytes with 2^31-11 records": lambda: claiming(HUGE - 10),
    "an offset delta twice": LIES["an offset delta twice"],
}


@pytest.fixture(params=sorted(OLD_LIES))
def with_a_lie(request: pytest.FixtureRequest, broker: Broker) -> tuple[str, int]:
    """A topic with two records, a bad batch and two more records; and the offset of the first of those."""
    lie = OLD_LIES[request.param]()
    (count,) = struct.unpack_from(">i", lie, COUNT)
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "old")
        calls.produce(wire, "old", bytes(batch(b"a", b"b")))
    broker.stop()
    (segment,) = (broker.data_directory / "old-0").glob("*.log")
    struct.pack_into(">qii", lie, 0, 2, len(lie) - 12, 0)
    with segment.open("ab") as file:
        file.write(lie)
    # As after a kill: the whole log is looked at.
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (broker.data_directory / name).unlink(missing_ok=True)
    broker.start()
    behind = 2 + count
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "old")
        assert calls.end_offset(wire, "old") == behind
        assert calls.produce(wire, "old", bytes(batch(b"c", b"d"))).base_offset == behind
    return "old", behind


@pytest.mark.not_kafka
def test_what_lies_in_a_log_stops_neither_look_ups_nor_a_start(
    broker: Broker, with_a_lie: tuple[str, int]
) -> None:
    topic, behind = with_a_lie
    for _ in range(2):
        with Wire(broker.bootstrap) as wire:
            calls.await_topic(wire, topic)
            for timestamp in (0, int(time.time() * 1000) - 60_000):
                found = calls.list_offset(wire, topic, timestamp)
                assert (found.error_code, found.offset) == (ErrorCode.none, 0)
            newest = calls.list_offset(wire, topic, calls.MAX_TIMESTAMP)
            assert (newest.error_code, newest.offset) == (ErrorCode.none, behind)
            values = [record.value for record in records(calls.fetch(wire, topic, behind).records)]
            assert values == [b"c", b"d"]
        broker.kill()
        broker.start()


@pytest.mark.not_kafka
def test_confluent_reads_what_lies_behind(broker: Broker, with_a_lie: tuple[str, int]) -> None:
    topic, behind = with_a_lie
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    try:
        values: list[bytes | None] = []
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        _poll(consumer, lambda: b"b" in values, values)
        consumer.seek(confluent_kafka.TopicPartition(topic, 0, behind))
        _poll(consumer, lambda: b"d" in values, values)
    finally:
        consumer.close()
    assert [value for value in values if value in (b"a", b"b", b"c", b"d")][:2] == [b"a", b"b"]
    assert values[-2:] == [b"c", b"d"]


def _poll(consumer: Any, done: Any, values: list[bytes | None]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < deadline, values
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            values.append(message.value())


@pytest.mark.not_kafka
def test_aiokafka_reads_what_lies_behind(broker: Broker, with_a_lie: tuple[str, int]) -> None:
    topic, behind = with_a_lie

    async def read() -> list[bytes | None]:
        values: list[bytes | None] = []
        place = aiokafka.TopicPartition(topic, 0)
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([place])
            for start, last in ((0, b"b"), (behind, b"d")):
                consumer.seek(place, start)
                while last not in values:
                    try:
                        values.append((await asyncio.wait_for(consumer.getone(), WITHIN_S)).value)
                    except aiokafka.errors.KafkaError:
                        break
        return values

    values = asyncio.run(read())
    assert values[-2:] == [b"c", b"d"]
