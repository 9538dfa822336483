"""One record per request: how many requests a second, and what each costs the broker."""

from bench.lineup import Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import Server

VALUE_SIZE = 100
COLUMNS = (
    Column("records_per_s", "requests/s", ",.0f"),
    Column("cpu_us_per_record", "broker CPU µs/request", ",.1f"),
    Column("p50_ms", "ack p50 ms", ",.2f"),
    Column("p99_ms", "ack p99 ms", ",.2f"),
    Column("client_cpu_us_per_record", "client CPU µs/request", ",.1f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    title = f"one {VALUE_SIZE} B record per request, pipelined, acks=1, client {options.client}"
    report = Report(title, COLUMNS, ("server",))
    with lineup(options) as running:
        running.warm_up(Load("requests", VALUE_SIZE))

        def measure(server: Server) -> dict[str, float | None]:
            with running.topic(server) as topic:
                outcome = running.measure(server, "requests", topic, value_size=VALUE_SIZE)
            return outcome.throughput(VALUE_SIZE)

        for name, figures in running.rounds("requests", measure).items():
            report.rows.append({"server": name} | figures)
        report.notes = running.notes()
    ours, sink, peer = ({"server": name} for name in ("tidelog", "sink", "kafka"))
    report.checks = [
        Check("requests/s over Kafka", report.ratio("records_per_s", ours, peer), 2, True),
        Check("requests/s, share of the sink", report.ratio("records_per_s", ours, sink)),
    ]
    return [report]
