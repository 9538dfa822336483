"""Many clients at once: nothing lost, nothing twice, each producer's order kept."""

import asyncio
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import aiokafka
import confluent_kafka
import pytest

from . import calls
from .clients import CLIENTS, ConfluentClient, Message
from .conftest import CreateTopic
from .records import batch, records
from .wire import Wire

pytestmark = pytest.mark.interop

PRODUCERS = 6
EACH = 500


def assert_all_there_in_order(bootstrap: str, topic: str, partitions: int, producers: int, each: int) -> None:
    """Values are ``producer/number``: every number of every producer once, and rising in each partition."""
    seen: dict[int, list[int]] = defaultdict(list)
    with Wire(bootstrap) as wire:
        for partition in range(partitions):
            count = calls.end_offset(wire, topic, partition)
            received = ConfluentClient().consume(bootstrap, topic, count, partition=partition)
            assert [record.offset for record in received] == list(range(count))
            newest: dict[int, int] = {}
            for record in received:
                assert record.value is not None
                producer, number = map(int, record.value.split(b"/"))
                assert number > newest.get(producer, -1), f"producer {producer} out of order in {partition}"
                newest[producer] = number
                seen[producer].append(number)
    assert {producer: sorted(numbers) for producer, numbers in seen.items()} == {
        producer: list(range(each)) for producer in range(producers)
    }


@pytest.mark.parametrize("partitions", [1, 4])
def test_producers_of_all_kinds(bootstrap: str, create_topic: CreateTopic, partitions: int) -> None:
    topic = create_topic(partitions=partitions)

    def produce(number: int) -> None:
        client = CLIENTS[number % len(CLIENTS)]
        messages = [Message(None, f"{number}/{n}".encode()) for n in range(EACH)]
        client.produce(bootstrap, topic, messages, partition=number % partitions)

    with ThreadPoolExecutor(PRODUCERS) as pool:
        list(pool.map(produce, range(PRODUCERS)))
    assert_all_there_in_order(bootstrap, topic, partitions, PRODUCERS, EACH)


def test_one_producer_over_many_partitions(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=12)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for n in range(5000):
        producer.produce(topic, f"0/{n}".encode(), key=str(n).encode())
        producer.poll(0)
    assert producer.flush(60) == 0
    assert_all_there_in_order(bootstrap, topic, 12, 1, 5000)


def test_readers_follow_writers(bootstrap: str, create_topic: CreateTopic) -> None:
    """Consumers that wait at the end of the log see each record soon after it was written."""
    topic = create_topic(partitions=2)

    async def follow(partition: int) -> list[bytes | None]:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
            place = aiokafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, 0)
            return [(await consumer.getone()).value for _ in range(100)]

    async def write() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for n in range(100):
                for partition in range(2):
                    await producer.send_and_wait(topic, str(n).encode(), partition=partition)

    async def run() -> list[list[bytes | None]]:
        readers = [asyncio.create_task(follow(partition)) for partition in (0, 1, 0, 1)]
        await write()
        return await asyncio.wait_for(asyncio.gather(*readers), 60)

    expected = [str(n).encode() for n in range(100)]
    assert asyncio.run(run()) == [expected] * 4


def test_many_connections_at_once(bootstrap: str, topic: str) -> None:
    wires = [Wire(bootstrap) for _ in range(300)]
    try:
        for number, wire in enumerate(wires):
            wire.send("produce", 12, **calls.produce_request(topic, bytes(batch(b"%d" % number)), 0, acks=-1))
        offsets = [
            wire.receive("produce", 12, 1).responses[0].partition_responses[0].base_offset for wire in wires
        ]
    finally:
        for wire in wires:
            wire.socket.close()
    assert sorted(offsets) == list(range(300))
    with Wire(bootstrap) as wire:
        stored = {record.offset: record.value for record in records(calls.fetch(wire, topic, 0).records)}
    assert stored == {offset: b"%d" % number for number, offset in enumerate(offsets)}
