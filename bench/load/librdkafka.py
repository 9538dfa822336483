"""Load through confluent-kafka, that is librdkafka: the client that the headline figures are measured with.

Records enter through ``produce_batch``, the call with the least Python per record, and delivery reports are
switched off except for errors, because a Python call per record would measure Python. That everything was
acknowledged is known from ``flush`` returning 0 and from no error report. Acknowledgement times are
librdkafka's own round trip times per request (its ``rtt`` statistic), so they are free of the time a record
waits in the client's queue.
"""

import json
import statistics
import time
from itertools import cycle
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.load.job import Job, Meter, Outcome, percentile
from bench.process import BenchError

QUEUE_KBYTES = 64 * 1024
STATISTICS_WINDOW_MS = 100
CONSUME_CALL_RECORDS = 2_000
CALL_BYTES = (
    250_000  # per produce_batch call: small enough to spread over partitions, large enough to be cheap
)

PRODUCE_SETTINGS: dict[
    str, Any
] = {  # batch.size and linger.ms are librdkafka's defaults, written out to be printed
    "acks": 1,
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "compression.type": "none",
    "queue.buffering.max.kbytes": QUEUE_KBYTES,
    "queue.buffering.max.messages": 1_000_000,
}
REQUESTS_SETTINGS: dict[str, Any] = {
    "acks": 1,
    "linger.ms": 0,
    "batch.num.messages": 1,
    "compression.type": "none",
    "queue.buffering.max.messages": 2_000,
}
LATENCY_SETTINGS: dict[str, Any] = {"acks": 1, "linger.ms": 0, "compression.type": "none"}
CONSUME_SETTINGS: dict[str, Any] = {
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 2,  # the default of 1 s makes the client sleep whenever its queue was full once
    "enable.auto.commit": False,
    "check.crcs": False,
}


class _Reports:
    """What librdkafka tells: failed deliveries and the round trip times of its statistics windows."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.p50_ms: list[float] = []
        self.p99_ms: list[float] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.error is None:
            self.error = error

    def statistics(self, text: str) -> None:
        for broker in json.loads(text)["brokers"].values():
            rtt = broker["rtt"]
            # Times beyond the client's scale of half a second are counted, but have no place in it: 0.
            if broker["nodeid"] >= 0 and rtt["p50"]:
                self.p50_ms.append(rtt["p50"] / 1000)
                self.p99_ms.append(rtt["p99"] / 1000)

    def forget(self) -> None:
        self.p50_ms.clear()
        self.p99_ms.clear()

    def median(self, windows: list[float]) -> float | None:
        return statistics.median(windows) if windows else None


def _producer(job: Job, settings: dict[str, Any], reports: _Reports, **more: Any) -> Producer:
    """A producer that is connected and has had one record acknowledged, so that no set-up is measured."""
    common = {"bootstrap.servers": job.bootstrap, "log_level": 2, "stats_cb": reports.statistics}
    common |= job.client_settings
    producer = Producer(common | settings | more)
    producer.produce(job.topic, b"x" * job.value_size, partition=0, on_delivery=reports.delivered)
    if producer.flush(30) or reports.error is not None:
        raise BenchError(f"the first write to {job.topic} failed: {reports.error or 'no answer within 30 s'}")
    return producer


class _Flood:
    """Keeps a producer's queue full, one partition after the other."""

    def __init__(self, job: Job, settings: dict[str, Any], records_per_call: int) -> None:
        self._job = job
        self.reports = _Reports()
        more = {"delivery.report.only.error": True, "statistics.interval.ms": STATISTICS_WINDOW_MS}
        self._producer = _producer(job, settings, self.reports, **more)
        self._messages = [{"value": b"x" * job.value_size} for _ in range(records_per_call)]
        self._next_partition = cycle(range(job.partitions)).__next__
        self._queued = 0

    def run(self, seconds: float, records_max: int) -> None:
        producer, messages = self._producer, self._messages
        end = time.perf_counter() + seconds
        queued_max = self._queued + records_max
        while time.perf_counter() < end and self._queued < queued_max:
            accepted = producer.produce_batch(
                self._job.topic,
                messages,
                partition=self._next_partition(),
                on_delivery=self.reports.delivered,
            )
            self._queued += accepted
            producer.poll(0 if accepted == len(messages) else 0.005)

    @property
    def acknowledged(self) -> int:
        """The producer's length is what it has queued or under way."""
        return self._queued - len(self._producer)

    def wind_down(self) -> None:
        left = self._producer.flush(60)
        if left or self.reports.error is not None:
            raise BenchError(
                f"{left} records were not acknowledged: {self.reports.error or 'no answer in 60 s'}"
            )


def _flood(job: Job, settings: dict[str, Any], records_per_call: int) -> Outcome:
    """What is acknowledged in ``job.seconds`` in the middle of a flood."""
    flood = _Flood(job, settings, records_per_call)
    flood.run(job.ramp_seconds, job.ramp_records_max)
    flood.reports.forget()
    before = flood.acknowledged
    meter = Meter(job.broker_pids)
    flood.run(job.seconds, job.measured_records_max)
    acknowledged = flood.acknowledged - before
    meter.stop()
    flood.wind_down()
    reports = flood.reports
    return meter.outcome(acknowledged, reports.median(reports.p50_ms), reports.median(reports.p99_ms))


def produce(job: Job) -> Outcome:
    return _flood(job, PRODUCE_SETTINGS | {"acks": job.acks}, max(1, min(1000, CALL_BYTES // job.value_size)))


def requests(job: Job) -> Outcome:
    return _flood(job, REQUESTS_SETTINGS | {"acks": job.acks}, records_per_call=200)


def latency(job: Job) -> Outcome:
    """One record at a time: from the call of ``produce`` to the delivery report."""
    reports = _Reports()
    producer = _producer(job, LATENCY_SETTINGS | {"acks": job.acks}, reports)
    value = b"x" * job.value_size
    samples: list[float] = []
    meter = Meter(job.broker_pids)
    while meter.elapsed() < job.seconds:
        before = time.perf_counter()
        producer.produce(job.topic, value, partition=0, on_delivery=reports.delivered)
        while len(producer):
            producer.poll(1)
        samples.append((time.perf_counter() - before) * 1000)
    if reports.error is not None:
        raise BenchError(f"a write failed: {reports.error}")
    meter.stop()
    samples.sort()
    return meter.outcome(len(samples), percentile(samples, 0.5), percentile(samples, 0.99))


def consume(job: Job) -> Outcome:
    """Read ``job.count`` records of partition 0 from ``job.start_offset`` on."""
    common = {"bootstrap.servers": job.bootstrap, "log_level": 2, "group.id": "bench", **job.client_settings}
    consumer = Consumer(common | CONSUME_SETTINGS)
    try:
        consumer.assign([TopicPartition(job.topic, 0, job.start_offset)])
        _read(consumer, 1)  # finds the broker, connects: no part of reading speed
        meter = Meter(job.broker_pids)
        consumed = 1
        while consumed < job.count:
            # consume() waits for as many as it is asked for: the last call must not ask for more than that.
            consumed += _read(consumer, min(CONSUME_CALL_RECORDS, job.count - consumed))
        return meter.outcome(consumed)
    finally:
        consumer.close()


def _read(consumer: Consumer, count: int) -> int:
    messages = consumer.consume(count, timeout=10)
    if not messages:
        raise BenchError("nothing came for 10 s although there is more to read")
    error = messages[0].error()
    if error is not None:
        raise BenchError(f"the consumer got an error: {error}")
    return len(messages)
