"""Writes to three replicas, acks=all: throughput to 12 partitions, one record per request, a lone write; then
(:mod:`bench.cases.cluster_scale`) the start of three brokers, and 1,000 replicated partitions.

Both clusters run for the whole bench and take turns; every topic has three replicas and asks for two.
"""

from bench.cases import cluster_scale
from bench.lineup import Lineup, Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import PARTITIONS_MAX, Server

BROKERS = 3
SIZES = (100, 1_000, 10_000)
REQUEST_SIZE = 100
LONE_SIZE = 1_000
THROUGHPUT = (
    Column("records_per_s", "msg/s", ",.0f"),
    Column("mb_per_s", "MB/s", ",.0f"),
    Column("p50_ms", "ack p50 ms", ",.2f"),
    Column("p99_ms", "ack p99 ms", ",.2f"),
    Column("cpu_s_per_gb", "CPU of all brokers s/GB", ",.2f"),
    Column("client_cpu_s_per_gb", "client CPU s/GB", ",.2f"),
    Column("rss_mb", "largest RSS MB", ",.0f"),
)
REQUESTS = (
    Column("records_per_s", "requests/s", ",.0f"),
    Column("cpu_us_per_record", "CPU of all brokers µs/request", ",.1f"),
    Column("p50_ms", "ack p50 ms", ",.2f"),
    Column("p99_ms", "ack p99 ms", ",.2f"),
    Column("rss_mb", "largest RSS MB", ",.0f"),
)
LONE = (
    Column("p50_ms", "p50 ms", ",.3f"),
    Column("p99_ms", "p99 ms", ",.3f"),
    Column("records_per_s", "writes/s", ",.0f"),
    Column("cpu_us_per_record", "CPU of all brokers µs/write", ",.1f"),
)
OURS, PEER = {"server": "tidelog"}, {"server": "kafka"}


def run(options: Options) -> list[Report]:
    with lineup(options, BROKERS) as running:
        running.warm_up(
            Load("produce", 1_000, PARTITIONS_MAX, "all"),
            Load("requests", REQUEST_SIZE, PARTITIONS_MAX, "all"),
            Load("latency", LONE_SIZE, acks="all"),
        )
        reports = [_throughput(running), _requests(running), _lone_write(running)]
        reports[-1].notes = running.notes()
    return [*reports, *cluster_scale.run(options)]


def _throughput(running: Lineup) -> Report:
    report = Report(
        f"produce to {PARTITIONS_MAX} partitions with 3 replicas, acks=all", THROUGHPUT, ("size", "server")
    )
    for size in SIZES:
        _measure(running, report, "produce", size, PARTITIONS_MAX, {"size": size})
        ours, peer = OURS | {"size": size}, PEER | {"size": size}
        faster = report.ratio("records_per_s", ours, peer)
        cheaper = report.ratio("cpu_s_per_gb", ours, peer)
        report.checks += [
            Check(f"{size:,} B: msg/s over Kafka", faster, 1.5 if size == 10_000 else 2.0),
            Check(f"{size:,} B: CPU of all brokers per GB over Kafka", cheaper, 0.5, False),
        ]
    return report


def _requests(running: Lineup) -> Report:
    title = (
        f"one {REQUEST_SIZE} B record per request to {PARTITIONS_MAX} partitions with 3 replicas, acks=all"
    )
    report = Report(title, REQUESTS, ("server",))
    _measure(running, report, "requests", REQUEST_SIZE, PARTITIONS_MAX, {})
    report.checks = [Check("requests/s over Kafka", report.ratio("records_per_s", OURS, PEER), 10)]
    return report


def _lone_write(running: Lineup) -> Report:
    report = Report("lone 1 KB write to 3 replicas, acks=all", LONE, ("server",))
    _measure(running, report, "latency", LONE_SIZE, 1, {})
    report.checks = [
        Check("p50 over warm Kafka's", report.ratio("p50_ms", OURS, PEER), 1, False),
        Check("p99 over warm Kafka's", report.ratio("p99_ms", OURS, PEER), 1, False),
    ]
    return report


def _measure(
    running: Lineup, report: Report, kind: str, size: int, partitions: int, label: dict[str, int]
) -> None:
    def measure(server: Server) -> dict[str, float | None]:
        with running.topic(server, partitions) as topic:
            outcome = running.measure(server, kind, topic, value_size=size, partitions=partitions, acks="all")
        return outcome.throughput(size)

    for name, figures in running.rounds(f"{kind} {size} B", measure).items():
        report.rows.append(label | {"server": name} | figures)
