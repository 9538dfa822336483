"""kill -9 in the middle of writing: what was acknowledged is there afterwards, once and in order."""

import threading
import time
from collections import defaultdict
from functools import partial

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .clients import ConfluentClient
from .consumed import value_of
from .records import Stored, batch, records
from .wire import ConnectionEnded, Wire

pytestmark = pytest.mark.interop

PARTITIONS = 3
PRODUCERS = 4


class Writer(threading.Thread):
    """One producer on one connection that writes numbered records and remembers which were acknowledged.

    No retries: a record whose answer never came may or may not be stored, but only once.
    """

    def __init__(self, bootstrap: str, number: int) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.number = number
        self.acknowledged: dict[tuple[int, int], int] = {}  # (partition, offset) -> n
        self.sent = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Wire(self.bootstrap) as wire:
                while True:
                    self._write_one(wire)
        except (ConnectionEnded, ConnectionError):
            return  # the kill
        except BaseException as error:
            self.failure = error

    def _write_one(self, wire: Wire) -> None:
        n, partition = self.sent, self.sent % PARTITIONS
        self.sent += 1
        # Sizes vary, so that the kill falls into writes of every length.
        value = f"{self.number}/{n}/".encode() + b"x" * (n * 7919 % 20_000)
        answer = calls.produce(wire, "t", bytes(batch(value)), partition=partition)
        assert answer.error_code is ErrorCode.none, answer
        self.acknowledged[(partition, answer.base_offset)] = n


def read_all(bootstrap: str, topic: str, partition: int) -> list[Stored]:
    with Wire(bootstrap) as wire:
        found: list[Stored] = []
        end = calls.end_offset(wire, topic, partition)
        while len(found) < end:
            answer = calls.fetch(wire, topic, len(found), partition=partition)
            assert answer.error_code is ErrorCode.none, answer.error_code
            found += [record for record in records(answer.records) if record.offset >= len(found)]
        return found


@pytest.mark.parametrize("kills", [3])
def test_acknowledged_records_survive(broker: Broker, kills: int) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", PARTITIONS, {"segment_bytes": 1 << 20})
    acknowledged: dict[tuple[int, int], tuple[int, int]] = {}
    for turn in range(kills):
        writers = [Writer(broker.bootstrap, turn * PRODUCERS + n) for n in range(PRODUCERS)]
        for writer in writers:
            writer.start()
        calls.eventually(
            partial(lambda all_of: all(len(each.acknowledged) > 40 for each in all_of), writers), "all write"
        )
        broker.kill()
        for writer in writers:
            writer.join(30)
            assert writer.failure is None, writer.failure
            for place, n in writer.acknowledged.items():
                assert place not in acknowledged, "an offset was given out twice"
                acknowledged[place] = (writer.number, n)
        broker.start()
    assert_all_kept(broker.bootstrap, acknowledged)
    with Wire(broker.bootstrap) as wire:
        end = calls.end_offset(wire, "t")
        assert calls.produce(wire, "t", bytes(batch(b"and on it goes"))).base_offset == end


def assert_all_kept(bootstrap: str, acknowledged: dict[tuple[int, int], tuple[int, int]]) -> None:
    seen: set[tuple[int, int]] = set()
    for partition in range(PARTITIONS):
        newest: dict[int, int] = defaultdict(lambda: -1)
        stored = read_all(bootstrap, "t", partition)
        assert [record.offset for record in stored] == list(range(len(stored)))
        for record in stored:
            assert record.value is not None
            writer, n = map(int, record.value.split(b"/", 2)[:2])
            assert (writer, n) not in seen, "a record is there twice"
            seen.add((writer, n))
            assert n > newest[writer], "a producer's records changed their order"
            newest[writer] = n
            expected = acknowledged.pop((partition, record.offset), (writer, n))
            assert expected == (writer, n), "another record than the acknowledged one is at its offset"
    assert not acknowledged, f"{len(acknowledged)} acknowledged records are gone"


def test_a_librdkafka_producer_rides_through_a_kill(broker: Broker) -> None:
    """It retries by itself: at least once, whatever it reported as delivered."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 1, "reconnect.backoff.max.ms": 200}
    )
    delivered: set[bytes] = set()

    def on_delivery(error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        delivered.add(value_of(message))

    for n in range(2000):
        producer.produce("t", b"%d" % n, on_delivery=on_delivery)
        producer.poll(0.001)
        if n == 1000:
            broker.kill()
            threading.Thread(target=broker.start).start()
    assert producer.flush(60) == 0
    assert len(delivered) == 2000
    with Wire(broker.bootstrap) as wire:
        count = calls.end_offset(wire, "t")
    stored = {record.value for record in ConfluentClient().consume(broker.bootstrap, "t", count)}
    assert delivered == stored


def test_a_frozen_broker_goes_on_where_it_stood(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        calls.produce(wire, "t", bytes(batch(b"before")))
        broker.pause()
        correlation_id = wire.send(
            "produce", 12, **calls.produce_request("t", bytes(batch(b"during")), 0, acks=1)
        )
        wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.receive_frame()
        broker.resume()
        wire.socket.settimeout(30)
        answer = wire.receive("produce", 12, correlation_id)
        assert answer.responses[0].partition_responses[0].base_offset == 1
        assert calls.end_offset(wire, "t") == 2


def test_killed_again_while_recovering(broker: Broker) -> None:
    """Recovery may be interrupted as often as it likes: it only ever cuts what was never acknowledged."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", 20)
        for partition in range(20):
            for n in range(5):
                calls.produce(wire, "t", bytes(batch(b"%d" % n * 1000)), partition=partition)
    for pause_s in (0.05, 0.15, 0.3, 0.5):
        broker.kill()
        broker.launch()
        time.sleep(pause_s)  # waits for nothing: the kills shall fall into different moments of the start
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        calls.await_topic(wire, "t", 20)
    for partition in range(20):
        assert len(read_all(broker.bootstrap, "t", partition)) == 5
