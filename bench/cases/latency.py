"""A lone write: one 1 KB record at a time, the next when the one before is acknowledged; acks=1, warm."""

from bench.lineup import Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import Server

VALUE_SIZE = 1_000
COLUMNS = (
    Column("p50_ms", "p50 ms", ",.3f"),
    Column("p99_ms", "p99 ms", ",.3f"),
    Column("records_per_s", "writes/s", ",.0f"),
    Column("cpu_us_per_record", "broker CPU µs/write", ",.1f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(f"lone 1 KB write, acks=1, client {options.client}", COLUMNS, ("server",))
    with lineup(options) as running:
        # Pipelined requests first: they bring a just-in-time compiler to speed sooner than lone ones.
        running.warm_up(Load("requests", VALUE_SIZE), Load("latency", VALUE_SIZE))

        def measure(server: Server) -> dict[str, float | None]:
            with running.topic(server) as topic:
                outcome = running.measure(server, "latency", topic, value_size=VALUE_SIZE)
            return outcome.throughput(VALUE_SIZE)

        for name, figures in running.rounds("latency", measure).items():
            report.rows.append({"server": name} | figures)
        report.notes = running.notes()
    ours, peer = ({"server": name} for name in ("tidelog", "kafka"))
    report.checks = [Check("p50 over Kafka's", report.ratio("p50_ms", ours, peer), 1.5, False)]
    return [report]
