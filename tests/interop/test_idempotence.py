"""Idempotent producers: a record sent twice is stored once, a gap is noticed, and a crash changes neither."""

import asyncio
import threading
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

import kafka
from tidelog.testing import Broker

from . import calls
from .conftest import CreateTopic
from .records import batch, values
from .test_crash import read_all
from .wire import Wire

pytestmark = pytest.mark.interop

TIMEOUT_S = 90.0
RECORDS = 3000


def new_producer(wire: Wire, version: int = 4) -> tuple[int, int]:
    """(producer id, epoch) of a new producer."""
    answers: list[Any] = []

    def granted() -> bool:
        request = {"transactional_id": None, "transaction_timeout": 60_000}
        answers.append(wire.call("init_producer_id", version, **request))
        return answers[-1].error_code is not ErrorCode.coordinator_load_in_progress  # soon after a start

    calls.eventually(granted, "a producer id is granted")
    assert answers[-1].error_code is ErrorCode.none
    return answers[-1].producer_id, answers[-1].producer_epoch


@pytest.fixture
def producer(wire: Wire) -> tuple[int, int]:
    return new_producer(wire)


def numbered(producer: tuple[int, int], sequence: int) -> bytes:
    return bytes(batch(b"%d" % sequence, producer=(*producer, sequence)))


def test_ids_are_never_given_twice(wire: Wire) -> None:
    versions = wire.versions()["init_producer_id"]
    granted = [new_producer(wire, version) for version in versions]
    assert {epoch for _, epoch in granted} == {0}
    assert len({producer_id for producer_id, _ in granted}) == len(versions)


def test_ids_are_never_given_twice_over_a_crash(broker: Broker) -> None:
    seen = []
    for _ in range(3):
        with Wire(broker.bootstrap) as wire:
            seen += [new_producer(wire)[0] for _ in range(5)]
        broker.kill()
        broker.start()
    assert len(set(seen)) == len(seen)


def test_a_batch_sent_again_is_stored_once(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    for sequence in range(5):
        data = numbered(producer, sequence)
        first, again = calls.produce(wire, topic, data), calls.produce(wire, topic, data)
        assert (first.error_code, first.base_offset) == (ErrorCode.none, sequence)
        assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
    assert values(calls.fetch(wire, topic, 0).records) == [b"0", b"1", b"2", b"3", b"4"]


def test_sent_again_at_once_by_another_connection(
    wire: Wire, bootstrap: str, topic: str, producer: tuple[int, int]
) -> None:
    """A client that lost its connection does not wait for the answer it will never get."""
    data = numbered(producer, 0)
    with Wire(bootstrap) as other:
        request = calls.produce_request(topic, data, 0, acks=-1)
        sent = [(each, each.send("produce", 12, **request)) for each in (wire, other)]
        answers = [each.receive("produce", 12, correlation_id) for each, correlation_id in sent]
    parts = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [(part.error_code, part.base_offset) for part in parts] == [(ErrorCode.none, 0)] * 2
    assert calls.end_offset(wire, topic) == 1


def test_the_append_time_of_the_original(
    wire: Wire, create_topic: CreateTopic, producer: tuple[int, int]
) -> None:
    topic = create_topic(message_timestamp_type="LogAppendTime")
    first, again = (calls.produce(wire, topic, numbered(producer, 0)) for _ in range(2))
    assert first.log_append_time is not None
    assert again.log_append_time == first.log_append_time


def test_a_gap_is_refused(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    calls.produce(wire, topic, numbered(producer, 0))
    refused = calls.produce(wire, topic, numbered(producer, 2))
    assert refused.error_code is ErrorCode.out_of_order_sequence_number
    assert calls.end_offset(wire, topic) == 1


def test_an_old_epoch_is_refused(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    producer_id, epoch = producer
    calls.produce(wire, topic, bytes(batch(b"new", producer=(producer_id, epoch + 1, 0))))
    refused = calls.produce(wire, topic, bytes(batch(b"old", producer=(producer_id, epoch, 0))))
    assert refused.error_code is ErrorCode.invalid_producer_epoch


def test_a_new_epoch_begins_at_zero(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    producer_id, epoch = producer
    calls.produce(wire, topic, numbered(producer, 0))
    refused = calls.produce(wire, topic, bytes(batch(b"1", producer=(producer_id, epoch + 1, 1))))
    assert refused.error_code is ErrorCode.out_of_order_sequence_number
    taken = calls.produce(wire, topic, bytes(batch(b"1", producer=(producer_id, epoch + 1, 0))))
    assert (taken.error_code, taken.base_offset) == (ErrorCode.none, 1)


def test_what_a_partition_knows_of_its_producers(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    calls.produce(wire, topic, bytes(batch(b"0", b"1", producer=(*producer, 0))))
    topics = [{"name": topic, "partition_indexes": [0]}]
    part = wire.call("describe_producers", 0, topics=topics).topics[0].partitions[0]
    assert part.error_code is ErrorCode.none
    (found,) = part.active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (*producer, 1)
    assert found.current_txn_start_offset == -1


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1 << 14])
@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.not_kafka  # which remembers only the newest batch of each producer over a restart
def test_all_five_are_recognised_after_a_restart(broker: Broker, how: str, segment_bytes: int) -> None:
    """Any of them may have been on its way when the broker went down; some lie in an older segment."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", configs={"segment_bytes": segment_bytes})
        producer = new_producer(wire)
        sent = [bytes(batch(b"%d" % n * 4000, producer=(*producer, n))) for n in range(30)]
        for data in sent:
            calls.produce(wire, "t", data)
    if how == "stop":
        broker.restart()
    else:
        broker.kill()
        broker.start()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t")
        again = [calls.produce(wire, "t", data) for data in sent[25:]]
        assert [(each.error_code, each.base_offset) for each in again] == [
            (ErrorCode.none, offset) for offset in range(25, 30)
        ]
        assert calls.end_offset(wire, "t") == 30
        assert calls.produce(wire, "t", numbered(producer, 30)).base_offset == 30
        gap = calls.produce(wire, "t", numbered(producer, 40))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number


def value(n: int) -> bytes:
    """Large enough that all together fill several segments."""
    return b"%d/" % n + b"x" * 1000


class Sender(ABC):
    """A client's idempotent producer that sends 0, 1, 2, … to a partition in the background."""

    name: str

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.acknowledged: list[int] = []  # offsets, in the order of the records
        self.failure: BaseException | None = None
        self.hurry = threading.Event()  # not set: leave the broker time to be killed in the middle
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.send_all()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def send_all(self) -> None:
        """Send all records, wait for all answers."""

    def is_past(self, count: int) -> bool:
        """More than so many records are acknowledged, or none will follow."""
        return len(self.acknowledged) > count or not self.thread.is_alive()

    def finish(self) -> list[int]:
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive(), f"only {len(self.acknowledged)} records were acknowledged"
        if self.failure is not None:
            raise self.failure
        return self.acknowledged


class ConfluentSender(Sender):
    name = "confluent"

    def send_all(self) -> None:
        offsets: dict[int, int] = {}

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            offsets[int(message.value().split(b"/")[0])] = message.offset()
            self.acknowledged.append(message.offset())

        config = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 1}
        producer = confluent_kafka.Producer({**config, "reconnect.backoff.max.ms": 200})
        for n in range(RECORDS):
            producer.produce(self.topic, value(n), partition=0, on_delivery=delivered)
            producer.poll(0 if self.hurry.is_set() else 0.005)
        assert producer.flush(TIMEOUT_S) == 0
        self.acknowledged = [offsets[n] for n in range(RECORDS)]


class KafkaPythonSender(Sender):
    """Idempotent unless told otherwise."""

    name = "kafka-python"

    def send_all(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap, linger_ms=1, reconnect_backoff_max_ms=200
        )
        try:
            futures = []
            for n in range(RECORDS):
                futures.append(producer.send(self.topic, value(n), partition=0))
                self.hurry.wait(0.005)
                if n % 20 == 0:
                    self.acknowledged.append(futures[-1].get(TIMEOUT_S).offset)
            self.acknowledged = [future.get(TIMEOUT_S).offset for future in futures]
        finally:
            producer.close()


class AioKafkaSender(Sender):
    name = "aiokafka"

    def send_all(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        settings = {"enable_idempotence": True, "linger_ms": 1, "request_timeout_ms": 60_000}
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=self.bootstrap, **settings) as producer:
            futures = []
            for n in range(RECORDS):
                futures.append(await producer.send(self.topic, value(n), partition=0))
                await asyncio.sleep(0 if self.hurry.is_set() else 0.005)
                if n % 20 == 0:
                    self.acknowledged.append((await futures[-1]).offset)
            self.acknowledged = [(await future).offset for future in futures]


SENDERS = [ConfluentSender, KafkaPythonSender, AioKafkaSender]
every_client = pytest.mark.parametrize("kind", SENDERS, ids=[sender.name for sender in SENDERS])


@every_client
def test_every_clients_idempotent_producer(bootstrap: str, topic: str, kind: type[Sender]) -> None:
    sender = kind(bootstrap, topic)
    sender.hurry.set()
    sender.thread.start()
    assert sender.finish() == list(range(RECORDS))
    assert_exactly_once(bootstrap, topic)


@every_client
def test_exactly_once_over_kills(broker: Broker, kind: type[Sender]) -> None:
    """The client sends again what was not acknowledged; the broker knows after its crash what it had."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", configs={"segment_bytes": 1 << 20})
    sender = kind(broker.bootstrap, "t")
    sender.thread.start()
    for _ in range(3):
        before = len(sender.acknowledged)
        calls.eventually(
            partial(sender.is_past, before + 5),
            "records are acknowledged",
        )
        assert sender.thread.is_alive(), "the kill comes too late to try anything"
        broker.kill()
        broker.start()
    sender.hurry.set()
    assert sender.finish() == list(range(RECORDS))
    assert_exactly_once(broker.bootstrap, "t")


def assert_exactly_once(bootstrap: str, topic: str) -> None:
    stored = [record.value for record in read_all(bootstrap, topic, 0)]
    assert stored == [value(n) for n in range(RECORDS)]
