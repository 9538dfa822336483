"""The Python clients behind one small interface, so that a test can say "every client" and mean it.

Each produces to and consumes from one partition, without consumer groups. Client settings are the client's
defaults wherever a test does not need otherwise: what is tested is the client as people use it.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka

import kafka

from .consumed import headers_of, offset_of
from .records import Headers, Stored

TIMEOUT_S = 60.0


class Message(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Client(ABC):
    name: str

    @abstractmethod
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, partition: int = 0, **settings: Any
    ) -> list[int]:
        """Send all and return the offsets they were given. Settings: ``codec``, ``acks``, ``max_bytes``."""

    @abstractmethod
    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        """Read the records of ``count`` offsets; in a compacted log there may be fewer.

        When time is up, the test sees what came until then.
        """


def complete(found: list[Stored], end_offset: int) -> bool:
    return end_offset <= (found[-1].offset + 1 if found else 0)


class ConfluentClient(Client):
    """confluent-kafka, that is librdkafka."""

    name = "confluent"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, partition: int = 0, **settings: Any
    ) -> list[int]:
        config: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 20}
        names = {"codec": "compression.type", "acks": "acks", "max_bytes": "message.max.bytes"}
        config |= {names[key]: value for key, value in settings.items()}
        producer = confluent_kafka.Producer(config)
        offsets: list[int] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets.append(message.offset())

        for message in messages:
            timestamp: dict[str, Any] = (
                {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
            )
            producer.produce(
                topic,
                message.value,
                message.key,
                partition,
                delivered,
                headers=list(message.headers),
                **timestamp,
            )
        left = producer.flush(TIMEOUT_S)
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        assert left == 0, f"{left} messages were never delivered"
        return offsets

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        found: list[Stored] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            while not complete(found, offset + count) and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error():
                    raise confluent_kafka.KafkaException(message.error())
                _, timestamp_ms = message.timestamp()
                found.append(
                    Stored(
                        offset_of(message), timestamp_ms, message.key(), message.value(), headers_of(message)
                    )
                )
        finally:
            consumer.close()
        return found


class KafkaPythonClient(Client):
    """kafka-python."""

    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, partition: int = 0, **settings: Any
    ) -> list[int]:
        config: dict[str, Any] = {"linger_ms": 20}
        if settings.get("codec", "none") != "none":
            config["compression_type"] = settings["codec"]
        if "acks" in settings:
            config["acks"] = settings["acks"]
        if "max_bytes" in settings:
            config["max_request_size"] = settings["max_bytes"]
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **config)
        try:
            futures = [
                producer.send(
                    topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            return [future.get(TIMEOUT_S).offset for future in futures]
        finally:
            producer.close()

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none")
        found: list[Stored] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            while not complete(found, offset + count) and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=500).values():
                    found += [Stored(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]
        finally:
            consumer.close()
        return found


class AioKafkaClient(Client):
    """aiokafka."""

    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], *, partition: int = 0, **settings: Any
    ) -> list[int]:
        config: dict[str, Any] = {"linger_ms": 20}
        if settings.get("codec", "none") != "none":
            config["compression_type"] = settings["codec"]
        if "acks" in settings:
            config["acks"] = settings["acks"]
        if "max_bytes" in settings:
            config["max_request_size"] = settings["max_bytes"]

        async def run() -> list[int]:
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **config) as producer:
                futures = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                answers = [await future for future in futures]
                return [answer.offset for answer in answers if answer is not None]

        return asyncio.run(run())

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        async def run() -> list[Stored]:
            found: list[Stored] = []
            deadline = time.monotonic() + TIMEOUT_S
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="none"
            ) as consumer:
                place = aiokafka.TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                while not complete(found, offset + count) and time.monotonic() < deadline:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        found += [Stored(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]
            return found

        return asyncio.run(run())


CLIENTS: list[Client] = [ConfluentClient(), KafkaPythonClient(), AioKafkaClient()]
