"""Produce throughput: 100 B, 1 KB and 10 KB records to 1 and 12 partitions, acks=1."""

from bench.lineup import Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import PARTITIONS_MAX, Server

SIZES = (100, 1_000, 10_000)
PARTITIONS = (1, PARTITIONS_MAX)
COLUMNS = (
    Column("records_per_s", "msg/s", ",.0f"),
    Column("mb_per_s", "MB/s", ",.0f"),
    Column("p50_ms", "ack p50 ms", ",.2f"),
    Column("p99_ms", "ack p99 ms", ",.2f"),
    Column("cpu_s_per_gb", "broker CPU s/GB", ",.2f"),
    Column("client_cpu_s_per_gb", "client CPU s/GB", ",.2f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(f"produce, acks=1, client {options.client}", COLUMNS, ("size", "partitions", "server"))
    with lineup(options) as running:
        running.warm_up(Load("produce", 1_000, PARTITIONS_MAX), Load("produce", 100))
        for size in SIZES:
            for partitions in PARTITIONS:

                def measure(
                    server: Server, size: int = size, partitions: int = partitions
                ) -> dict[str, float | None]:
                    with running.topic(server, partitions) as topic:
                        outcome = running.measure(
                            server, "produce", topic, value_size=size, partitions=partitions
                        )
                    return outcome.throughput(size)

                medians = running.rounds(f"produce {size} B × {partitions}", measure)
                for name, figures in medians.items():
                    report.rows.append({"size": size, "partitions": partitions, "server": name} | figures)
        report.notes = running.notes()
    report.checks = [
        check for size in SIZES for partitions in PARTITIONS for check in _checks(report, size, partitions)
    ]
    return [report]


def _checks(report: Report, size: int, partitions: int) -> list[Check]:
    ours, sink, peer = (
        {"size": size, "partitions": partitions, "server": name} for name in ("tidelog", "sink", "kafka")
    )
    label = f"{size:,} B × {partitions}"
    checks = [
        Check(f"{label}: msg/s, share of the sink", report.ratio("records_per_s", ours, sink), 0.7, True)
    ]
    if size == 1_000:
        checks.append(
            Check(f"{label}: msg/s over Kafka", report.ratio("records_per_s", ours, peer), 1.5, True)
        )
        checks.append(
            Check(
                f"{label}: broker CPU per GB over Kafka",
                report.ratio("cpu_s_per_gb", ours, peer),
                1 / 3,
                False,
            )
        )
    return checks
