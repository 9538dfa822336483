"""A producer: numbered records at a rate, or as fast as its client takes them.

Owns the sending. Every record ends as one event: acknowledged, failed, or aborted with its transaction. With
keys the partition follows from the key; otherwise partitions take turns.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.lab.experiment.model import LoadSpec
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.load import value_of
from tidelog.lab.workload.jobs import Job, partition_of
from tidelog.lab.workload.progress import Reporter

TICK_S = 0.005
BURST_MAX = 500  # records between two polls
QUEUED_MAX = 20_000  # as fast as possible: a longer queue would only be a longer wait
FLUSH_S = 20.0
TRANSACTION_TIMEOUT_MS = 10_000


def client_settings(job: Job, load: LoadSpec) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "client.id": job.producer,
        "acks": load.acks,
        "enable.idempotence": load.idempotent,
        "log_level": 2,
    }
    if load.rate == 0:
        settings["queue.buffering.max.messages"] = QUEUED_MAX
    if load.transactional:
        # The same after a crash: the next incarnation ends what this one left open.
        settings["transactional.id"] = f"{job.run}/{job.topic}/{job.name}"
        settings["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
    return settings | load.settings


class Sender:
    """Hands records to a client, and notes what becomes of each."""

    def __init__(self, job: Job, load: LoadSpec, producer: Producer, history: HistoryWriter) -> None:
        self._job, self._load = job, load
        self._producer, self._history = producer, history
        self._sequences = [0] * job.partitions
        self._turns = itertools.count(job.number)
        self._keys = itertools.count(job.number * 7919)

    def send(
        self, done: Callable[[KafkaError | None, Message, "Sent"], None], transaction: int | None
    ) -> bool:
        """False: the client's queue is full. KafkaException: the client is of no further use."""
        key, partition = self._next()
        sequence = self._sequences[partition]
        value = value_of(self._job.producer, sequence, self._load.size)
        sent = Sent(partition, sequence, now_us(), len(value) + len(key or b""), transaction)

        def delivered(error: KafkaError | None, message: Message) -> None:
            done(error, message, sent)

        try:
            self._producer.produce(self._job.topic, value, key, partition=partition, on_delivery=delivered)
        except BufferError:
            return False
        self._sequences[partition] += 1
        return True

    def use(self, producer: Producer) -> None:
        """From now on, instead of one that is of no further use. Sequences go on."""
        self._producer = producer

    def note(self, kind: str, sent: "Sent", offset: int | None, time_us: int) -> None:
        self._history.add(
            kind, time_us, producer=self._job.producer, sequence=sent.sequence, partition=sent.partition,
            offset=offset if kind == "acknowledged" else None, sent_us=sent.sent_us, bytes=sent.size,
            transaction=sent.transaction,
        )  # fmt: skip

    def _next(self) -> tuple[bytes | None, int]:
        if self._load.keys:
            key = f"key-{next(self._keys) % self._load.keys}".encode()
            return key, partition_of(key, self._job.partitions)
        return None, next(self._turns) % self._job.partitions


class Sent:
    __slots__ = ("partition", "sent_us", "sequence", "size", "transaction")

    def __init__(
        self, partition: int, sequence: int, sent_us: int, size: int, transaction: int | None
    ) -> None:
        self.partition, self.sequence, self.sent_us = partition, sequence, sent_us
        self.size, self.transaction = size, transaction


class Pace:
    """How many records are due."""

    def __init__(self, load: LoadSpec) -> None:
        self._rate = load.rate / load.producers
        self._start = time.monotonic()
        self._sent = 0

    def due(self) -> int:
        if self._rate == 0:
            return BURST_MAX
        owed = int((time.monotonic() - self._start) * self._rate) - self._sent
        if owed > self._rate:  # more than a second behind: this machine cannot, and a burst would not help
            self._sent += owed - int(self._rate)
            owed = int(self._rate)
        return min(owed, BURST_MAX)

    def sent(self) -> None:
        self._sent += 1


def produce(job: Job, load: LoadSpec, history: HistoryWriter, reporter: Reporter) -> None:
    """Until it is told to stop; then everything is acknowledged or has failed."""
    producer = Producer(client_settings(job, load))
    sender = Sender(job, load, producer, history)

    def done(error: KafkaError | None, message: Message, sent: Sent) -> None:
        offset = message.offset() if error is None else None
        sender.note("acknowledged" if error is None else "failed", sent, offset, now_us())
        if error is None:
            reporter.note(sent.partition, offset)
        else:
            reporter.failed += 1

    pace = Pace(load)
    while not reporter.is_stopping:
        try:
            _send_due(sender, pace, done)
        except KafkaException:
            # Fatal for an idempotent client: the cluster has lost a record of its sequence.
            give_up(producer)
            producer = Producer(client_settings(job, load))
            sender.use(producer)
        producer.poll(TICK_S if load.rate else 0.001)
        reporter.tell()
    end(producer, reporter)


def _send_due(sender: Sender, pace: Pace, done: Callable[[KafkaError | None, Message, Sent], None]) -> None:
    for _ in range(pace.due()):
        if not sender.send(done, None):
            return
        pace.sent()


def end(producer: Producer, reporter: Reporter) -> None:
    """Wait for answers, then give up on the rest: each becomes a failure."""
    deadline = time.monotonic() + FLUSH_S
    while producer.flush(0.1) and time.monotonic() < deadline:
        reporter.tell()
    give_up(producer)


def give_up(producer: Producer) -> None:
    """Give up on what has no answer: without an event it would be in no figure, nor would its wait."""
    producer.purge()
    producer.flush(1.0)
