"""Exactly once over crashes: producers and brokers are killed in the middle, every record is there once."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .consumed import key_of, offset_of, value_of
from .records import batch
from .transactional import TRANSACTORS, Confluent, Transactor, await_stable, stable_offset, transactor
from .wire import ConnectionEnded, Wire

pytestmark = pytest.mark.interop

RECORDS = 250
KILLS = 3
TESTS = Path(__file__).parent.parent


class Worker:
    """The process of :mod:`interop.exactly_once`, started again whenever it ends too early."""

    def __init__(self, kind: type[Transactor], bootstrap: str) -> None:
        command = [sys.executable, "-m", "interop.exactly_once", kind.name, bootstrap]
        self._command = [*command, "source", "target", "worker"]
        self._process = self._begin()
        self.starts = 1

    def _begin(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command, cwd=TESTS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def is_done(self) -> bool:
        code = self._process.poll()
        if code is not None and code != 0:
            self._process = self._begin()
            self.starts += 1
        return code == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @classmethod
    @contextmanager
    def running(cls, kind: type[Transactor], bootstrap: str) -> Iterator["Worker"]:
        worker = cls(kind, bootstrap)
        try:
            yield worker
        finally:
            worker.kill()


def prepare(broker: Broker) -> list[bytes]:
    records = [b"%d" % number for number in range(RECORDS)]
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "source")
        calls.create_topic(wire, "target", configs={"segment_bytes": 1 << 14})
        for start in range(0, RECORDS, 50):
            data = bytes(batch(*records[start : start + 50]))
            assert calls.produce(wire, "source", data).error_code is ErrorCode.none
    return records


def written(broker: Broker) -> int:
    """How far the target is; -1 while nobody answers."""
    try:
        with Wire(broker.bootstrap) as wire:
            return calls.end_offset(wire, "target")
    except (ConnectionEnded, OSError, AssertionError):
        return -1


def await_progress(broker: Broker, worker: Worker, chance: random.Random) -> bool:
    """Wait for some more records, a random number of them; False when the work is done."""
    goal = max(written(broker), 0) + chance.randint(5, 60)
    done: list[bool] = []

    def moved() -> bool:
        done.append(worker.is_done())
        return done[-1] or written(broker) >= goal

    calls.eventually(moved, f"the target reaches {goal}", timeout_s=120)
    return not done[-1]


@pytest.mark.parametrize(
    ("kind", "victim"),
    [(Confluent, "client"), (Confluent, "broker"), *((kind, "both") for kind in TRANSACTORS)],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_record_once_whoever_is_killed(broker: Broker, kind: type[Transactor], victim: str) -> None:
    records = prepare(broker)
    chance = random.Random(f"{kind.name} {victim}")
    with Worker.running(kind, broker.bootstrap) as worker:
        for _ in range(KILLS):
            if not await_progress(broker, worker, chance):
                break
            if victim != "broker":
                worker.kill()
            if victim != "client":
                broker.kill()
                broker.start()
        calls.eventually(worker.is_done, "the work is done", timeout_s=200)
    with Wire(broker.bootstrap) as wire:
        end_offset = await_stable(wire, "target")
    assert Confluent.read(broker.bootstrap, "target", "read_committed", end_offset) == records
    everything = Confluent.read(broker.bootstrap, "target", "read_uncommitted", end_offset)
    assert len(everything) > RECORDS, "some transactions were aborted"


def end(broker: Broker, how: str) -> None:
    if how == "kill":
        broker.kill()
    else:
        broker.stop()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_was_decided_is_finished_after_a_restart(broker: Broker, how: str) -> None:
    """Nobody waits for markers, so the last ones are often still on their way when the broker goes."""
    with Wire(broker.bootstrap) as wire:
        for number in range(8):
            calls.create_topic(wire, f"t{number}")
    for round_ in range(4):
        with transactor(Confluent, broker.bootstrap, "decided") as producer:
            producer.begin()
            for number in range(8):
                producer.send(f"t{number}", b"%d" % round_)
            producer.commit()
            end(broker, how)
        broker.start()
        with Wire(broker.bootstrap) as wire:
            for number in range(8):
                await_stable(wire, f"t{number}")
    for number in range(8):
        with Wire(broker.bootstrap) as wire:
            end_offset = await_stable(wire, f"t{number}")
        found = Confluent.read(broker.bootstrap, f"t{number}", "read_committed", end_offset)
        assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_open_and_aborted_transactions_are_known_after_a_restart(broker: Broker, how: str) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
    with transactor(Confluent, broker.bootstrap, "aborts") as producer:
        for _ in range(3):
            producer.begin()
            producer.send("t", b"aborted")
            producer.abort()
    with Wire(broker.bootstrap) as wire:
        assert await_stable(wire, "t") == 6
    left_open = Confluent(broker.bootstrap, "open", timeout_ms=600_000)
    left_open.begin()
    left_open.send("t", b"open")
    end(broker, how)
    broker.start()
    with Wire(broker.bootstrap) as wire:
        calls.eventually(lambda: calls.end_offset(wire, "t") == 7, "all is there again")
        assert stable_offset(wire, "t") == 6
        answer = calls.fetch(wire, "t", 0, isolation_level=1)
        assert [each.first_offset for each in answer.aborted_transactions] == [0, 2, 4]
    left_open.send("t", b"goes on")
    left_open.commit()
    with Wire(broker.bootstrap) as wire:
        end_offset = await_stable(wire, "t")
    found = Confluent.read(broker.bootstrap, "t", "read_committed", end_offset)
    assert found == [b"open", b"goes on"]


@pytest.mark.tidelog_settings({"log.cleaner.backoff.ms": 100})
def test_compaction_drops_what_was_aborted(broker: Broker) -> None:
    """A compacted topic, as streams of tables are kept in."""
    with Wire(broker.bootstrap) as wire:
        settings = {
            "cleanup_policy": "compact",
            "segment_bytes": 1 << 14,
            "min_cleanable_dirty_ratio": 0.01,
            "delete_retention_ms": 100,
        }
        calls.create_topic(wire, "table", configs=settings)
        producer = KeyedPlayer(wire, "table")
        for round_ in range(30):
            producer.transact({b"k%d" % key: b"%d" % round_ for key in range(20)}, commits=round_ % 3 != 2)
        await_stable(wire, "table")

        def is_clean() -> bool:
            return len(producer.read_everything()) < 200

        for _ in range(30):
            producer.transact({b"other": b"x" * 1000}, commits=True)
        calls.eventually(is_clean, "the aborted and superseded records are gone")
        newest = {}
        end_offset = await_stable(wire, "table")
        for key, value in producer.read_committed(end_offset):
            newest[key] = value
        assert newest == {**{b"k%d" % key: b"28" for key in range(20)}, b"other": b"x" * 1000}


class KeyedPlayer:
    """Transactions of records with keys."""

    def __init__(self, wire: Wire, topic: str) -> None:
        host, port = wire.socket.getpeername()
        self._bootstrap = f"{host}:{port}"
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "table", "linger.ms": 0}
        )
        self._producer.init_transactions(60)

    def transact(self, table: dict[bytes, bytes], *, commits: bool) -> None:
        self._producer.begin_transaction()
        for key, value in table.items():
            self._producer.produce(self._topic, value, key)
        self._producer.flush()
        (self._producer.commit_transaction if commits else self._producer.abort_transaction)(60)

    def read_everything(self) -> list[tuple[bytes, bytes]]:
        with Wire(self._bootstrap) as wire:
            return self._read("read_uncommitted", calls.end_offset(wire, self._topic))

    def read_committed(self, end_offset: int) -> list[tuple[bytes, bytes]]:
        return self._read("read_committed", end_offset)

    def _read(self, isolation: str, end_offset: int) -> list[tuple[bytes, bytes]]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        found: list[tuple[bytes, bytes]] = []
        try:
            consumer.assign([confluent_kafka.TopicPartition(self._topic, 0, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None
                if message.error():
                    if offset_of(message) >= end_offset:
                        return found
                else:
                    found.append((key_of(message), value_of(message)))
        finally:
            consumer.close()
