"""How long anything holds a broker's event loop: each operation under a steady produce load on three brokers.

The figures are the brokers' own: the histograms of ``/metrics``, before and after. "Held" leaves out the time
in which other programs had the processor. "CPU" is only what the loop's thread computed: on a machine that is
in use it also waits for a thread that has Python's lock and not the processor, and for the disk.
"""

import threading
import time
import urllib.request
from collections import Counter

from confluent_kafka import Producer

from bench.cluster import ClusterServer, tidelog_cluster
from bench.lineup import Options, work_directory
from bench.loop_operations import OPERATIONS, SETTLE_SECONDS, Field
from bench.process import BenchError, free_port
from bench.report import Check, Column, Report

LIMIT_MS = 10
PARTITIONS, QUICK_PARTITIONS = 10_000, 1_000
COLD_MB, QUICK_COLD_MB = 512, 64
LOAD_TOPIC = "bench-load"
RECORDS_PER_SECOND = 500
HELD, LATE = "tidelog_event_loop_held", "tidelog_event_loop_delay"
COMPUTED = "tidelog_event_loop_computed"
BOUNDS_MS = (5, 10, 20, 50, 100, 500)
SETTINGS = {
    "event.loop.sample.interval.ms": 2,
    # What happens every minute or every hour shall happen while it is looked at.
    "log.flush.offset.checkpoint.interval.ms": 1000,
    "metadata.log.max.snapshot.interval.ms": 1000,
    "log.scrub.bytes.per.second": 0,
}
COLUMNS = (
    Column("seconds", "seconds", ",.1f"),
    Column("held_max_ms", "longest held ms", ",.1f"),
    Column("computed_max_ms", "longest CPU ms", ",.1f"),
    Column("computed_over", "CPU > 10 ms", ",.0f"),
    Column("late_max_ms", "latest ms", ",.1f"),
    *(Column(f"over_{bound}", f"> {bound} ms", ",.0f") for bound in BOUNDS_MS),
)


class SteadyLoad(threading.Thread):
    """A few hundred records a second to every broker, until told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 2})
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(0.01):
            for _ in range(RECORDS_PER_SECOND // 100):
                try:
                    self._producer.produce(LOAD_TOPIC, b"x" * 100)
                except BufferError:
                    break  # The brokers are away: they will be back.
            self._producer.poll(0)

    def end(self) -> None:
        self._ending.set()
        self.join(10)


class Scraper:
    """The brokers' figures, as they were told last."""

    def __init__(self, cluster: ClusterServer, ports: dict[int, int]) -> None:
        self._cluster = cluster
        self._ports = ports
        self._before: dict[int, tuple[int, Counter[str]]] = {}  # node: process, figures

    def look(self) -> dict[str, float]:
        """What has happened since the last look, over all brokers that are up."""
        total: Counter[str] = Counter()
        largest = {HELD: 0.0, LATE: 0.0, COMPUTED: 0.0}
        for node, member in self._cluster.members.items():
            try:
                found = _scrape(self._ports[node])
            except OSError:
                continue  # It is down.
            pid, before = self._before.get(node, (member.pid, Counter[str]()))
            new = Counter(found)
            if pid == member.pid:
                new.subtract(before)
            total.update(new)
            largest[HELD] = max(largest[HELD], found["tidelog_event_loop_held_max_seconds"])
            largest[COMPUTED] = max(largest[COMPUTED], found[f"{COMPUTED}_max_seconds"])
            largest[LATE] = max(largest[LATE], found["tidelog_event_loop_lag_max_seconds"])
            self._before[node] = (member.pid, Counter(found))
        over = {
            f"over_{bound}": total[f"{HELD}_seconds_count"]
            - total[f'{HELD}_seconds_bucket{{le="{bound / 1000}"}}']
            for bound in BOUNDS_MS
        }
        return {
            "held_max_ms": largest[HELD] * 1000,
            "late_max_ms": largest[LATE] * 1000,
            "computed_max_ms": largest[COMPUTED] * 1000,
            "computed_over": total[f"{COMPUTED}_seconds_count"]
            - total[f'{COMPUTED}_seconds_bucket{{le="0.01"}}'],
            **over,
        }


def _scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if line.startswith("tidelog_event_loop"))
    return {name: float(value) for name, _, value in lines}


def run(options: Options) -> list[Report]:
    partitions = QUICK_PARTITIONS if options.quick else PARTITIONS
    cold_mb = QUICK_COLD_MB if options.quick else COLD_MB
    title = f"three brokers under load; {partitions:,} partitions, {cold_mb} MB; held by one thing at a time"
    report = Report(title, COLUMNS, ("operation",))
    with work_directory() as directory:
        ports = {node: free_port() for node in (1, 2, 3)}
        cluster = tidelog_cluster(directory / "tidelog", 3, more=SETTINGS)
        for node, member in cluster.members.items():
            member.add_settings({"http.port": ports[node]})
        field = Field(cluster, partitions, cold_mb)
        try:
            cluster.start()
            field.topics.create(LOAD_TOPIC, 6)
            load = SteadyLoad(cluster.bootstrap)
            load.start()
            _measure(report, field, Scraper(cluster, ports), options)
            load.end()
        finally:
            field.close()
            cluster.stop()
    report.checks = [
        Check(row["operation"], row["held_max_ms"], LIMIT_MS, False, "ms") for row in report.rows
    ]
    return [report]


def _measure(report: Report, field: Field, scraper: Scraper, options: Options) -> None:
    chosen = [name for name in OPERATIONS if not options.queries or _is_wanted(name, options.queries)]
    time.sleep(SETTLE_SECONDS)
    for name in chosen:
        scraper.look()
        began = time.monotonic()
        with options.console.status(name):
            OPERATIONS[name](field)
            seconds = time.monotonic() - began
            time.sleep(SETTLE_SECONDS)  # What an answer does not wait for is part of it.
        report.rows.append({"operation": name, "seconds": seconds, **scraper.look()})
    if not report.rows:
        raise BenchError(f"There is no such operation; there are {', '.join(OPERATIONS)}.")


def _is_wanted(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)
