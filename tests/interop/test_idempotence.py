"""Idempotent producers: a record sent twice is stored once, and a gap is noticed."""

from typing import Any

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .clients import ConfluentClient
from .records import batch, values
from .wire import Wire

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def served(bootstrap: str) -> None:
    with Wire(bootstrap) as wire:
        if "init_producer_id" not in wire.versions():
            pytest.skip("this broker gives no producer ids")


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
        data = bytes(batch(b"%d" % sequence, producer=(*producer, sequence)))
        first, again = calls.produce(wire, topic, data), calls.produce(wire, topic, data)
        assert (first.error_code, first.base_offset) == (ErrorCode.none, sequence)
        assert (again.error_code, again.base_offset) == (ErrorCode.none, sequence)
    assert values(calls.fetch(wire, topic, 0).records) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_gap_is_refused(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    calls.produce(wire, topic, bytes(batch(b"0", producer=(*producer, 0))))
    refused = calls.produce(wire, topic, bytes(batch(b"2", producer=(*producer, 2))))
    assert refused.error_code is ErrorCode.out_of_order_sequence_number
    assert calls.end_offset(wire, topic) == 1


def test_an_old_epoch_is_refused(wire: Wire, topic: str, producer: tuple[int, int]) -> None:
    producer_id, epoch = producer
    calls.produce(wire, topic, bytes(batch(b"new", producer=(producer_id, epoch + 1, 0))))
    refused = calls.produce(wire, topic, bytes(batch(b"old", producer=(producer_id, epoch, 0))))
    assert refused.error_code is ErrorCode.invalid_producer_epoch


def test_exactly_once_over_a_kill(broker: Broker) -> None:
    """librdkafka sends again what was not acknowledged; the broker knows after its crash what it had."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
    config = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1}
    producer = confluent_kafka.Producer({**config, "reconnect.backoff.max.ms": 200})
    for n in range(3000):
        producer.produce("t", b"%d" % n)
        producer.poll(0.001)
        if n in (1000, 2000):
            broker.kill()
            broker.start()
    assert producer.flush(60) == 0
    received = ConfluentClient().consume(broker.bootstrap, "t", 3000)
    assert [record.value for record in received] == [b"%d" % n for n in range(3000)]
    with Wire(broker.bootstrap) as wire:
        assert calls.end_offset(wire, "t") == 3000
