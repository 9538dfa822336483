"""Transactions of real clients: all of a transaction is seen, or nothing of it."""

import uuid

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import batch
from .transactional import (
    TRANSACTORS,
    Confluent,
    Transactor,
    await_stable,
    committed_offset,
    stable_offset,
    transactor,
)
from .wire import Wire

pytestmark = pytest.mark.interop

every_client = pytest.mark.parametrize("kind", TRANSACTORS, ids=lambda kind: kind.name)
every_reader = pytest.mark.parametrize("reader", TRANSACTORS, ids=lambda kind: kind.name)


@pytest.fixture
def name() -> str:
    """A transactional id, or group, that no other test uses."""
    return f"id-{uuid.uuid4().hex[:12]}"


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@every_reader
@every_client
def test_committed_records_are_seen_and_aborted_ones_are_not(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor], reader: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name) as producer:
        for round_ in range(6):
            producer.begin()
            producer.send(topic, *numbers(10 * round_, 10 * round_ + 10))
            if round_ % 2:
                producer.abort()
            else:
                producer.commit()
    end_offset = await_stable(wire, topic)
    assert end_offset == 66, "ten records and a marker each"
    everything = numbers(0, 60)
    assert reader.read(bootstrap, topic, "read_uncommitted", end_offset) == everything
    committed = numbers(0, 10) + numbers(20, 30) + numbers(40, 50)
    assert reader.read(bootstrap, topic, "read_committed", end_offset) == committed


@every_client
def test_nobody_reads_past_an_open_transaction(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name) as producer, transactor(Confluent, bootstrap, name + "2") as other:
        producer.begin()
        producer.send(topic, b"open")
        other.begin()
        other.send(topic, b"behind")
        other.commit()
        calls.eventually(lambda: calls.end_offset(wire, topic) == 3, "the marker is written")
        assert stable_offset(wire, topic) == 0
        answer = calls.fetch(wire, topic, 0, isolation_level=1, max_wait=0)
        assert (answer.high_watermark, answer.last_stable_offset, answer.records) == (3, 0, b"")
        waiting = wire.send(
            "fetch",
            12,
            **calls.fetch_request(
                [{"topic": topic, "partitions": [calls.fetch_partition(0, 0)]}],
                isolation_level=1,
                max_wait=60_000,
            ),
        )
        producer.commit()
        answer = wire.receive("fetch", 12, waiting).responses[0].partitions[0]
        assert answer.records, "a reader that waits is told when the transaction ends"
        assert answer.last_stable_offset > 0


@every_client
def test_a_transaction_covers_many_partitions(
    bootstrap: str, wire: Wire, create_topic: CreateTopic, name: str, kind: type[Transactor]
) -> None:
    topic = create_topic(partitions=6)
    with transactor(kind, bootstrap, name) as producer:
        for commits in (True, False, True):
            producer.begin()
            for partition in range(6):
                producer.send(topic, b"%d" % partition, partition=partition)
            (producer.commit if commits else producer.abort)()
    for partition in range(6):
        assert await_stable(wire, topic, partition) == 6
        answer = calls.fetch(wire, topic, 0, partition=partition, isolation_level=1)
        assert [each.first_offset for each in answer.aborted_transactions] == [2]


@every_client
def test_a_producer_that_was_replaced_cannot_commit(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name) as old:
        old.begin()
        old.send(topic, b"zombie")
        with transactor(kind, bootstrap, name) as new:
            new.begin()
            new.send(topic, b"new")
            new.commit()
            with pytest.raises(kind.fenced):
                old.send(topic, b"zombie again")
                old.commit()
    end_offset = await_stable(wire, topic)
    assert Confluent.read(bootstrap, topic, "read_committed", end_offset) == [b"new"]


@every_client
def test_a_transaction_that_takes_too_long_is_aborted(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name, timeout_ms=1000) as producer:
        producer.begin()
        producer.send(topic, b"too long")
        assert await_stable(wire, topic) == 2
        with pytest.raises(kind.fenced):
            producer.commit()
    assert Confluent.read(bootstrap, topic, "read_committed", 2) == []


@every_client
def test_a_shorter_timeout_counts_from_the_next_start(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    """The first life had a timeout of ten minutes; the test fails if the second waits for its end."""
    with transactor(kind, bootstrap, name, timeout_ms=600_000) as producer:
        producer.begin()
        producer.send(topic, b"first life")
        producer.commit()
    with transactor(kind, bootstrap, name, timeout_ms=1000) as producer:
        producer.begin()
        producer.send(topic, b"too long")
        assert await_stable(wire, topic) == 4
    assert Confluent.read(bootstrap, topic, "read_committed", 4) == [b"first life"]


@every_client
def test_offsets_count_when_the_transaction_commits(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name) as producer:
        producer.begin()
        producer.send(topic, b"x")
        producer.send_offset(name, topic, 42)
        producer.commit()
        assert committed_offset(wire, name, topic) == 42
        producer.begin()
        producer.send_offset(name, topic, 77)
        producer.abort()
        assert committed_offset(wire, name, topic) == 42


@every_client
def test_a_transaction_of_nothing(
    bootstrap: str, wire: Wire, topic: str, name: str, kind: type[Transactor]
) -> None:
    with transactor(kind, bootstrap, name) as producer:
        for end in (producer.commit, producer.abort, producer.commit):
            producer.begin()
            end()
        producer.begin()
        producer.send(topic, b"x")
        producer.commit()
    assert await_stable(wire, topic) == 2


def test_many_producers_at_once(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    """Interleaved in one partition, each reader sees exactly the committed ones, in the order of the log."""
    producers = [Confluent(bootstrap, f"{name}-{number}") for number in range(8)]
    for round_ in range(5):
        for producer in producers:
            producer.begin()
        for step in range(3):
            for number, producer in enumerate(producers):
                producer.send(topic, b"%d %d %d" % (round_, step, number))
        for number, producer in enumerate(producers):
            (producer.commit if (round_ + number) % 3 else producer.abort)()
    end_offset = await_stable(wire, topic)
    expected = [
        b"%d %d %d" % (round_, step, number)
        for round_ in range(5)
        for step in range(3)
        for number in range(8)
        if (round_ + number) % 3
    ]
    for reader in TRANSACTORS:
        assert reader.read(bootstrap, topic, "read_committed", end_offset) == expected


def test_plain_records_between_transactions_wait_with_them(
    bootstrap: str, wire: Wire, topic: str, name: str
) -> None:
    with transactor(Confluent, bootstrap, name) as producer:
        producer.begin()
        producer.send(topic, b"first")
        assert calls.produce(wire, topic, bytes(batch(b"plain"))).error_code is ErrorCode.none
        assert stable_offset(wire, topic) == 0
        producer.abort()
    end_offset = await_stable(wire, topic)
    assert Confluent.read(bootstrap, topic, "read_committed", end_offset) == [b"plain"]
