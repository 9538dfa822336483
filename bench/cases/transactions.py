"""What idempotence and transactions cost: the same flood plain, idempotent, and 1,000 records at a time."""

from bench.lineup import Lineup, Load, Options, lineup
from bench.report import Check, Column, Report
from bench.servers import Server

SIZES = (1_000, 10_000)
PARTITIONS = 8
RECORDS_PER_TRANSACTION = 1_000
COLUMNS = (
    Column("plain", "plain msg/s", ",.0f"),
    Column("idempotent", "idem. msg/s", ",.0f"),
    Column("transactional", "txn msg/s", ",.0f"),
    Column("idempotence_share", "idem. / plain", ",.2f"),
    Column("transactions_share", "txn / plain", ",.2f"),
    Column("plain_cpu", "plain broker ms/1,000", ",.2f"),
    Column("transactional_cpu", "txn broker ms/1,000", ",.2f"),
    Column("plain_client_cpu", "plain client ms/1,000", ",.2f"),
    Column("transactional_client_cpu", "txn client ms/1,000", ",.2f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(
        f"{PARTITIONS} partitions, acks=all, transactions of {RECORDS_PER_TRANSACTION:,} records",
        COLUMNS,
        ("size", "server"),
    )
    options.servers = tuple(name for name in options.servers if name != "sink")  # It knows no transactions.
    with lineup(options) as running:
        running.warm_up(Load("produce", SIZES[0], PARTITIONS, acks="all"))
        for size in SIZES:

            def measure(server: Server, size: int = size) -> dict[str, float | None]:
                return _measure(running, server, size)

            medians = running.rounds(f"transactions {size} B", measure)
            for name, figures in medians.items():
                report.rows.append({"size": size, "server": name} | figures)
        report.notes = running.notes()
    report.checks = [check for size in SIZES for check in _checks(report, size)]
    return [report]


def _measure(running: Lineup, server: Server, size: int) -> dict[str, float | None]:
    rates: dict[str, float] = {}
    figures: dict[str, float | None] = {}
    for kind in ("plain", "idempotent", "transactional"):
        with running.topic(server, PARTITIONS) as topic:
            outcome = running.measure(
                server, kind, topic, client="transactions", value_size=size, partitions=PARTITIONS,
                count=RECORDS_PER_TRANSACTION,
            )  # fmt: skip
        rates[kind] = outcome.records / outcome.seconds
        figures[f"{kind}_cpu"] = outcome.broker_cpu_seconds / outcome.records * 1e6
        figures[f"{kind}_client_cpu"] = outcome.client_cpu_seconds / outcome.records * 1e6
    return {
        **rates,
        **figures,
        "idempotence_share": rates["idempotent"] / rates["plain"],
        "transactions_share": rates["transactional"] / rates["plain"],
    }


def _checks(report: Report, size: int) -> list[Check]:
    ours = {"size": size, "server": "tidelog"}
    label = f"{size:,} B"
    return [
        Check(f"{label}: idempotent, share of plain", report.value("idempotence_share", **ours), 0.95, True),
        Check(f"{label}: in transactions, share", report.value("transactions_share", **ours), 0.85, True),
    ]
