"""Consume 1 KB records from the page cache, right after producing them: MB/s and broker CPU, beside
producing.
"""

from bench.lineup import Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import Server

VALUE_SIZE = 1_000
COLUMNS = (
    Column("mb_per_s", "consume MB/s", ",.0f"),
    Column("produce_mb_per_s", "produce MB/s", ",.0f"),
    Column("cpu_ms_per_mb", "broker CPU ms per consumed MB", ",.3f"),
    Column("produce_cpu_ms_per_mb", "… per produced MB", ",.3f"),
    Column("client_cpu_s_per_gb", "client CPU s/GB", ",.2f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(f"consume 1 KB from the page cache, client {options.client}", COLUMNS, ("server",))
    with lineup(options) as running:
        running.warm_up(Load("produce", VALUE_SIZE))

        def measure(server: Server) -> dict[str, float | None]:
            with running.topic(server) as topic:
                produced = running.measure(server, "produce", topic, value_size=VALUE_SIZE)
                consumed = running.measure(
                    server, "consume", topic, value_size=VALUE_SIZE, count=produced.records
                )
            figures = consumed.throughput(VALUE_SIZE)
            written = produced.throughput(VALUE_SIZE)
            figures["produce_mb_per_s"] = written["mb_per_s"]
            figures["cpu_ms_per_mb"] = figures["cpu_s_per_gb"]  # a second per GB is a millisecond per MB
            figures["produce_cpu_ms_per_mb"] = written["cpu_s_per_gb"]
            return figures

        for server in running.servers:
            measure(server)  # not recorded: warms up the reading side
        for name, figures in running.rounds("consume", measure).items():
            report.rows.append({"server": name} | figures)
        report.notes = running.notes()
    report.checks = _checks(report)
    return [report]


def _checks(report: Report) -> list[Check]:
    def share(above: str, below: str) -> float | None:
        over, under = report.value(above, server="tidelog"), report.value(below, server="tidelog")
        return over / under if over is not None and under else None

    ours, sink, peer = ({"server": name} for name in ("tidelog", "sink", "kafka"))
    return [
        Check("consume over produce, MB/s", share("mb_per_s", "produce_mb_per_s"), 1, True),
        Check("CPU per consumed over produced MB", share("cpu_ms_per_mb", "produce_cpu_ms_per_mb"), 1, False),
        Check("MB/s, share of the sink", report.ratio("mb_per_s", ours, sink)),
        Check("MB/s over Kafka", report.ratio("mb_per_s", ours, peer)),
    ]
