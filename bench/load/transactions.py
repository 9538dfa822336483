"""The same flood three times, through confluent-kafka: plain, idempotent, and in transactions.

Several producers write at the same time, as they do where transactions are used: a client that commits waits
for the answer, and a single one would measure that waiting. ``count`` is the number of records per
transaction; the others write in the same portions, so that the clients do the same work otherwise. A record
counts when it is acknowledged, or committed.

Nobody asks for delivery reports, which would measure Python; that everything was written is seen from the
ends of the partitions. (With reports of errors only, librdkafka notices the last acknowledgement up to 100 ms
late when it commits.)"""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.load.job import Job, Meter, Outcome
from bench.process import BenchError

PRODUCERS = 8
SETTINGS: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "compression.type": "none",
    "max.in.flight": 5,  # what an idempotent producer may have; a plain one would otherwise have any number
    "queue.buffering.max.messages": 100_000,
}
TIMEOUT_S = 60.0


class _Writer(threading.Thread):
    """One producer, from its first record to its last."""

    def __init__(
        self, job: Job, settings: dict[str, Any], portion: "_Portion", ending: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._portion = portion
        self._ending = ending
        self._messages = [{"value": b"x" * job.value_size} for _ in range(job.count)]
        self.producer = Producer({"bootstrap.servers": job.bootstrap, "log_level": 2, **SETTINGS, **settings})
        self.partition = 0
        self.failure: BaseException | None = None
        self.queued = 0
        self.committed = 0

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                self._portion(self)
            self.producer.flush(TIMEOUT_S)
        except KafkaException as error:
            self.failure = error

    def queue(self) -> None:
        """One portion of records, waiting where the client's queue is full."""
        left = self._messages
        while left:
            accepted = self.producer.produce_batch(self._job.topic, left, partition=self.partition)
            self.queued += accepted
            left = left[accepted:]
            self.producer.poll(0 if not left else 0.005)


_Portion = Callable[[_Writer], None]


def _acknowledged(writer: _Writer) -> int:
    return writer.queued - len(writer.producer)


def _committed(writer: _Writer) -> int:
    return writer.committed


def _write(writer: _Writer) -> None:
    writer.queue()
    while len(writer.producer) > 10 * writer._job.count:  # Not more in memory than it takes to keep busy.
        writer.producer.poll(0.005)


def _transact(writer: _Writer) -> None:
    writer.producer.begin_transaction()
    writer.queue()
    writer.producer.commit_transaction(TIMEOUT_S)
    writer.committed = writer.queued


def plain(job: Job) -> Outcome:
    return _flood(job, lambda _: {"enable.idempotence": False}, _write, _acknowledged)


def idempotent(job: Job) -> Outcome:
    return _flood(job, lambda _: {"enable.idempotence": True}, _write, _acknowledged)


def transactional(job: Job) -> Outcome:
    run = uuid.uuid4().hex[:8]
    return _flood(job, lambda number: {"transactional.id": f"bench-{run}-{number}"}, _transact, _committed)


def _flood(
    job: Job,
    settings: Callable[[int], dict[str, Any]],
    portion: _Portion,
    done: Callable[[_Writer], int],
) -> Outcome:
    ending = threading.Event()
    writers = [_Writer(job, settings(number), portion, ending) for number in range(PRODUCERS)]
    for number, writer in enumerate(writers):
        writer.partition = number % job.partitions
        if portion is _transact:
            writer.producer.init_transactions(TIMEOUT_S)
        writer.start()
    try:
        _await(writers, done, job.count)
        time.sleep(job.ramp_seconds)
        before = sum(map(done, writers))
        meter = Meter(job.broker_pids)
        limit = before + job.measured_records_max
        while meter.elapsed() < job.seconds and sum(map(done, writers)) < limit:
            time.sleep(0.01)
        records = sum(map(done, writers)) - before
        meter.stop()
    finally:
        ending.set()
        for writer in writers:
            writer.join(TIMEOUT_S)
    _check(writers)
    _check_all_written(job, sum(writer.queued for writer in writers))
    return meter.outcome(records)


def _await(writers: list[_Writer], done: Callable[[_Writer], int], count: int) -> None:
    """Until every producer is connected and has written something."""
    deadline = time.monotonic() + TIMEOUT_S
    while any(done(writer) < count for writer in writers):
        _check(writers)
        if time.monotonic() > deadline:
            raise BenchError("the producers did not begin in time")
        time.sleep(0.005)


def _check(writers: list[_Writer]) -> None:
    for writer in writers:
        if writer.failure is not None:
            raise BenchError(f"a producer failed: {writer.failure}")


def _check_all_written(job: Job, queued: int) -> None:
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", "log_level": 2})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(job.topic, partition), timeout=30)[1]
            for partition in range(job.partitions)
        ]
    finally:
        consumer.close()
    if sum(ends) < queued:  # Markers take offsets, too.
        raise BenchError(f"{queued - sum(ends)} of {queued} records were not written")
