"""What travels between the bench and its load process."""

import time
from dataclasses import dataclass, field

from bench.process import cpu_seconds, machine_cpu_seconds

NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One measurement against one server."""

    kind: str  # produce, requests, latency or consume
    client: str  # librdkafka or raw
    bootstrap: str
    broker_pids: list[int]
    topic: str
    value_size: int
    partitions: int = 1
    acks: str = "1"
    seconds: float = 1.0  # how long to measure; consuming ends with the count
    ramp_seconds: float = 0.0  # of the same load before that: connections, first appends, new files
    max_bytes: int = 0  # of record values to write, ramp included; 0: no limit. See bench.lineup.
    count: int = 0  # records to consume
    start_offset: int = 0
    client_settings: dict[str, str] = field(default_factory=dict)  # more of librdkafka's

    @property
    def port(self) -> int:
        """Of the first broker, for the client that knows only one."""
        return int(self.bootstrap.partition(",")[0].rpartition(":")[2])

    @property
    def ramp_records_max(self) -> int:
        return self._records_max // 4

    @property
    def measured_records_max(self) -> int:
        return self._records_max - self.ramp_records_max

    @property
    def _records_max(self) -> int:
        return self.max_bytes // self.value_size if self.max_bytes else NO_LIMIT


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


@dataclass(frozen=True, slots=True)
class _Reading:
    """All clocks at one moment."""

    wall: float
    broker_cpu: float
    client_cpu: float
    machine_cpu: float


class Meter:
    """Wall clock, CPU of all brokers and of the client from its creation to ``stop``."""

    def __init__(self, broker_pids: list[int]) -> None:
        self._pids = broker_pids
        self._first = self._read()
        self._last: _Reading | None = None

    def _read(self) -> _Reading:
        brokers = sum(cpu_seconds(pid) for pid in self._pids)
        return _Reading(time.perf_counter(), brokers, time.process_time(), machine_cpu_seconds())

    def elapsed(self) -> float:
        return time.perf_counter() - self._first.wall

    def stop(self) -> None:
        """Read the clocks for the last time; what comes later (waiting for stragglers) is not measured."""
        self._last = self._read()

    def outcome(self, records: int, p50_ms: float | None = None, p99_ms: float | None = None) -> Outcome:
        first, last = self._first, self._last or self._read()
        broker_cpu = last.broker_cpu - first.broker_cpu
        client_cpu = last.client_cpu - first.client_cpu
        return Outcome(
            records=records,
            seconds=last.wall - first.wall,
            broker_cpu_seconds=broker_cpu,
            client_cpu_seconds=client_cpu,
            other_cpu_seconds=max(0.0, last.machine_cpu - first.machine_cpu - broker_cpu - client_cpu),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )


def percentile(ordered: list[float], share: float) -> float | None:
    """The value below which ``share`` of the sorted samples lie; ``None`` without samples."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
