"""What travels between the bench and its load process."""

import time
from dataclasses import dataclass

from bench.process import cpu_seconds, machine_cpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One measurement against one server."""

    kind: str  # produce, requests, latency or consume
    client: str  # librdkafka or raw
    port: int
    broker_pid: int
    topic: str
    value_size: int
    partitions: int = 1
    seconds: float = 1.0  # how long to produce; consuming ends with the count
    count: int = 0  # records to consume
    start_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one job measured; rates are the reader's business."""

    records: int  # acknowledged, or consumed
    seconds: float
    broker_cpu_seconds: float
    client_cpu_seconds: float
    other_cpu_seconds: float  # of everyone else on the machine, stolen time included: how noisy it was
    p50_ms: float | None = None  # of acknowledgements; see the client for what exactly is timed
    p99_ms: float | None = None

    def throughput(self, value_size: int) -> dict[str, float | None]:
        """The outcome as rates; a MB is 10^6 and a GB 10^9 bytes of record values."""
        gigabytes = self.records * value_size / 1e9
        return {
            "records_per_s": self.records / self.seconds,
            "mb_per_s": gigabytes * 1000 / self.seconds,
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "cpu_s_per_gb": self.broker_cpu_seconds / gigabytes,
            "client_cpu_s_per_gb": self.client_cpu_seconds / gigabytes,
            "cpu_us_per_record": self.broker_cpu_seconds / self.records * 1e6,
            "client_cpu_us_per_record": self.client_cpu_seconds / self.records * 1e6,
        }


class Meter:
    """Wall clock, broker CPU and client CPU from its creation on."""

    def __init__(self, broker_pid: int) -> None:
        self._pid = broker_pid
        self._broker_cpu = cpu_seconds(broker_pid)
        self._client_cpu = time.process_time()
        self._machine_cpu = machine_cpu_seconds()
        self._start = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self._start

    def outcome(self, records: int, p50_ms: float | None = None, p99_ms: float | None = None) -> Outcome:
        seconds = self.elapsed()
        broker_cpu = cpu_seconds(self._pid) - self._broker_cpu
        client_cpu = time.process_time() - self._client_cpu
        machine_cpu = machine_cpu_seconds() - self._machine_cpu
        return Outcome(
            records=records,
            seconds=seconds,
            broker_cpu_seconds=broker_cpu,
            client_cpu_seconds=client_cpu,
            other_cpu_seconds=max(0.0, machine_cpu - broker_cpu - client_cpu),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )


def percentile(ordered: list[float], share: float) -> float | None:
    """The value below which ``share`` of the sorted samples lie; ``None`` without samples."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
