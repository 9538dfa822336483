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
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.load.job import Job, Meter, Outcome, percentile
from bench.process import BenchError

QUEUE_KBYTES = 64 * 1024
STATISTICS_WINDOW_MS = 250
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
            if broker["nodeid"] >= 0 and rtt["cnt"]:
                self.p50_ms.append(rtt["p50"] / 1000)
                self.p99_ms.append(rtt["p99"] / 1000)

    def median(self, windows: list[float]) -> float | None:
        return statistics.median(windows) if windows else None


def _producer(job: Job, settings: dict[str, Any], reports: _Reports, **more: Any) -> Producer:
    """A producer that is connected and has had one record acknowledged, so that no set-up is measured."""
    common = {"bootstrap.servers": f"127.0.0.1:{job.port}", "log_level": 2, "stats_cb": reports.statistics}
    producer = Producer(common | settings | more)
    producer.produce(job.topic, b"x" * job.value_size, partition=0, on_delivery=reports.delivered)
    if producer.flush(30) or reports.error is not None:
        raise BenchError(f"the first write to {job.topic} failed: {reports.error or 'no answer within 30 s'}")
    reports.p50_ms.clear()
    reports.p99_ms.clear()
    return producer


def _flood(job: Job, settings: dict[str, Any], records_per_call: int) -> Outcome:
    """Keep the producer's queue full for ``job.seconds``, then wait for the last acknowledgement."""
    reports = _Reports()
    more = {"delivery.report.only.error": True, "statistics.interval.ms": STATISTICS_WINDOW_MS}
    producer = _producer(job, settings, reports, **more)
    value = b"x" * job.value_size
    messages = [{"value": value} for _ in range(records_per_call)]
    meter = Meter(job.broker_pid)
    queued = 0
    partition = 0
    while meter.elapsed() < job.seconds:
        accepted = producer.produce_batch(
            job.topic, messages, partition=partition, on_delivery=reports.delivered
        )
        queued += accepted
        partition = (partition + 1) % job.partitions
        producer.poll(0 if accepted == records_per_call else 0.005)
    left = producer.flush(60)
    outcome = meter.outcome(queued, reports.median(reports.p50_ms), reports.median(reports.p99_ms))
    if left or reports.error is not None:
        raise BenchError(f"{left} records were not acknowledged: {reports.error or 'no answer within 60 s'}")
    return outcome


def produce(job: Job) -> Outcome:
    return _flood(job, PRODUCE_SETTINGS, max(1, min(1000, CALL_BYTES // job.value_size)))


def requests(job: Job) -> Outcome:
    return _flood(job, REQUESTS_SETTINGS, records_per_call=200)


def latency(job: Job) -> Outcome:
    """One record at a time: from the call of ``produce`` to the delivery report."""
    reports = _Reports()
    producer = _producer(job, LATENCY_SETTINGS, reports)
    value = b"x" * job.value_size
    samples: list[float] = []
    meter = Meter(job.broker_pid)
    while meter.elapsed() < job.seconds:
        before = time.perf_counter()
        producer.produce(job.topic, value, partition=0, on_delivery=reports.delivered)
        while len(producer):
            producer.poll(1)
        samples.append((time.perf_counter() - before) * 1000)
    if reports.error is not None:
        raise BenchError(f"a write failed: {reports.error}")
    outcome_records = len(samples)
    samples.sort()
    return meter.outcome(outcome_records, percentile(samples, 0.5), percentile(samples, 0.99))


def consume(job: Job) -> Outcome:
    """Read ``job.count`` records of partition 0 from ``job.start_offset`` on."""
    common = {"bootstrap.servers": f"127.0.0.1:{job.port}", "log_level": 2, "group.id": "bench"}
    consumer = Consumer(common | CONSUME_SETTINGS)
    try:
        consumer.assign([TopicPartition(job.topic, 0, job.start_offset)])
        _read(consumer, 1)  # finds the broker, connects: no part of reading speed
        meter = Meter(job.broker_pid)
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
