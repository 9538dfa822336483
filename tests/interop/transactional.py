"""Transactional producers and readers of the Python clients, behind one small interface."""

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka.errors

import kafka

from . import calls
from .consumed import offset_of, value_of
from .wire import Wire

TIMEOUT_S = 60.0


class Transactor(ABC):
    """A producer with a transactional id, past its initialisation."""

    name: str
    fenced: tuple[type[Exception], ...]  # what it raises when another has taken its id

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.bootstrap = bootstrap
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        """Send and wait until the broker has them."""

    @abstractmethod
    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 as part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @staticmethod
    @abstractmethod
    def read(bootstrap: str, topic: str, isolation: str, end_offset: int) -> list[bytes]:
        """The values of partition 0 as a reader of that isolation level sees them, up to an offset."""


class Confluent(Transactor):
    name = "confluent"
    fenced = (confluent_kafka.KafkaException,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                # A broker that was killed is back in half a second; by default it would be tried every 10 s.
                "reconnect.backoff.max.ms": 500,
                # Otherwise it forgets all brokers when the only one is down for a moment, and then waits for
                # a group's coordinator that it has forgotten as well.
                "metadata.recovery.strategy": "none",
            }
        )
        self._producer.init_transactions(TIMEOUT_S)
        self._groups: dict[str, confluent_kafka.Consumer] = {}  # only for their metadata; none of them reads

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        errors: list[Any] = []
        for value in values:
            self._producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
            )
        assert self._producer.flush(TIMEOUT_S) == 0
        refused = [error for error in errors if error is not None]
        if refused:
            raise confluent_kafka.KafkaException(refused[0])

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        if group not in self._groups:
            settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 2}
            self._groups[group] = confluent_kafka.Consumer(settings)
        metadata = self._groups[group].consumer_group_metadata()
        offsets = [confluent_kafka.TopicPartition(topic, 0, offset)]
        self._producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        for consumer in self._groups.values():
            consumer.close()
        del self._producer

    @staticmethod
    def read(bootstrap: str, topic: str, isolation: str, end_offset: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        found = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if error := message.error():
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                    if offset_of(message) >= end_offset:
                        break
                else:
                    found.append(value_of(message))
        finally:
            consumer.close()
        return found


class KafkaPython(Transactor):
    name = "kafka-python"
    fenced = (kafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            reconnect_backoff_max_ms=500,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        futures = [self._producer.send(topic, value, partition=partition) for value in values]
        self._producer.flush()
        for future in futures:
            future.get(TIMEOUT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        with contextlib.suppress(kafka.errors.KafkaError):
            self._producer.close(timeout=5)

    @staticmethod
    def read(bootstrap: str, topic: str, isolation: str, end_offset: int) -> list[bytes]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, isolation_level=isolation)
        place = kafka.TopicPartition(topic, 0)
        found = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([place])
            consumer.seek(place, 0)
            while time.monotonic() < deadline and consumer.position(place) < end_offset:
                for records in consumer.poll(timeout_ms=500).values():
                    found += [record.value for record in records]
        finally:
            consumer.close()
        return found


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AioKafka(Transactor):
    name = "aiokafka"
    fenced = (aiokafka.errors.KafkaError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        self._loop = _Loop()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer = self._loop.run(start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, *values: bytes, partition: int = 0) -> None:
        async def send() -> None:
            futures = [await self._producer.send(topic, value, partition=partition) for value in values]
            for future in futures:
                await future

        self._loop.run(send())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._loop.run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(aiokafka.errors.KafkaError):
            self._loop.run(self._producer.stop())
        self._loop.stop()

    @staticmethod
    def read(bootstrap: str, topic: str, isolation: str, end_offset: int) -> list[bytes]:
        async def read() -> list[bytes]:
            found: list[bytes] = []
            deadline = time.monotonic() + TIMEOUT_S
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=None, isolation_level=isolation
            ) as consumer:
                place = aiokafka.TopicPartition(topic, 0)
                consumer.assign([place])
                consumer.seek(place, 0)
                while time.monotonic() < deadline and await consumer.position(place) < end_offset:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        found += [record.value for record in records]
            return found

        return asyncio.run(read())


TRANSACTORS: list[type[Transactor]] = [Confluent, KafkaPython, AioKafka]


@contextlib.contextmanager
def transactor(
    kind: type[Transactor], bootstrap: str, transactional_id: str, timeout_ms: int = 60_000
) -> Iterator[Transactor]:
    opened = kind(bootstrap, transactional_id, timeout_ms)
    try:
        yield opened
    finally:
        opened.close()


# -- looking at the broker ---------------------------------------------------------


def stable_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    """The end of what a reader of committed transactions sees."""
    part = {"partition_index": partition, "timestamp": calls.LATEST}
    topics = [{"name": topic, "partitions": [part]}]
    answer = wire.call("list_offsets", 8, replica_id=-1, isolation_level=1, topics=topics)
    found: int = answer.topics[0].partitions[0].offset
    return found


def await_stable(wire: Wire, topic: str, partition: int = 0) -> int:
    """Wait until no transaction is open; the end offset."""
    calls.eventually(
        lambda: stable_offset(wire, topic, partition) == calls.end_offset(wire, topic, partition),
        f"all transactions in {topic}-{partition} have ended",
    )
    return calls.end_offset(wire, topic, partition)


def committed_offset(wire: Wire, group: str, topic: str) -> int:
    """The committed offset of partition 0; -1 when there is none. Waits while a transaction is open."""
    found: list[Any] = []
    wanted = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]

    def asked() -> bool:
        find_coordinator(wire, group, 0)
        answer = wire.call("offset_fetch", 8, groups=wanted, require_stable=True)
        part = answer.groups[0].topics[0].partitions[0] if answer.groups[0].topics else None
        found.append(part)
        return part is not None and part.error_code == 0

    calls.eventually(asked, f"the offset of {group} is stable")
    return int(found[-1].committed_offset)


def find_coordinator(wire: Wire, key: str, key_type: int) -> None:
    """Wait until somebody coordinates a group (0) or a transactional id (1)."""

    def found() -> bool:
        answer = wire.call("find_coordinator", 4, key_type=key_type, coordinator_keys=[key])
        return bool(answer.coordinators[0].error_code == 0)

    calls.eventually(found, f"{key} has a coordinator")


def retried(call: Callable[[], Any], *codes: int) -> Any:
    """Ask again while the answer is one of these passing errors."""
    answers: list[Any] = []

    def settled() -> bool:
        answers.append(call())
        return answers[-1].error_code not in codes

    calls.eventually(settled, "a final answer")
    return answers[-1]
