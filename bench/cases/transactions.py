"""What idempotence and transactions cost: the same flood plain, idempotent, and 1,000 records at a time."""

from bench.lineup import Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import Server

SIZE = 1_000
PARTITIONS = 8
RECORDS_PER_TRANSACTION = 1_000
COLUMNS = (
    Column("plain", "plain msg/s", ",.0f"),
    Column("idempotent", "idempotent msg/s", ",.0f"),
    Column("transactional", "transactional msg/s", ",.0f"),
    Column("idempotence_share", "idempotent / plain", ",.3f"),
    Column("transactions_share", "transactional / plain", ",.3f"),
    Column("transactions_per_s", "transactions/s", ",.0f"),
    Column("plain_cpu", "plain CPU s/GB", ",.2f"),
    Column("transactional_cpu", "transactional CPU s/GB", ",.2f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(
        f"{SIZE:,} B × {PARTITIONS} partitions, acks=all; transactions of {RECORDS_PER_TRANSACTION:,}",
        COLUMNS,
        ("server",),
    )
    options.servers = tuple(name for name in options.servers if name != "sink")  # It knows no transactions.
    with lineup(options) as running:
        running.warm_up(Load("produce", SIZE, PARTITIONS, acks="all"))

        def measure(server: Server) -> dict[str, float | None]:
            rates: dict[str, float] = {}
            cpu: dict[str, float | None] = {}
            for kind in ("plain", "idempotent", "transactional"):
                with running.topic(server, PARTITIONS) as topic:
                    outcome = running.measure(
                        server, kind, topic, client="transactions", value_size=SIZE, partitions=PARTITIONS,
                        count=RECORDS_PER_TRANSACTION,
                    )  # fmt: skip
                rates[kind] = outcome.records / outcome.seconds
                cpu[kind] = outcome.throughput(SIZE)["cpu_s_per_gb"]
            return {
                **rates,
                "idempotence_share": rates["idempotent"] / rates["plain"],
                "transactions_share": rates["transactional"] / rates["plain"],
                "transactions_per_s": rates["transactional"] / RECORDS_PER_TRANSACTION,
                "plain_cpu": cpu["plain"],
                "transactional_cpu": cpu["transactional"],
            }

        for name, figures in running.rounds("transactions", measure).items():
            report.rows.append({"server": name} | figures)
        report.notes = running.notes()
    ours = {"server": "tidelog"}
    report.checks = [
        Check("idempotent, share of plain", report.value("idempotence_share", **ours), 0.95, True),
        Check("in transactions, share of plain", report.value("transactions_share", **ours), 0.85, True),
    ]
    return [report]
