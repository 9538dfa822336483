"""Consumer groups: how soon 50 members share 200 partitions, and what 1,000 commits a second cost."""

from bench.lineup import Options, lineup
from bench.load.groups import COMMITS_PER_SECOND
from bench.report import Check, Column, Report
from bench.servers import Server

MEMBERS = 50
PARTITIONS = 200
COMMIT_SECONDS = 5.0
COLUMNS = (
    Column("stable_s", f"{MEMBERS} members stable s", ",.2f"),
    Column("rebalance_cpu_s", "broker CPU s", ",.2f"),
    Column("commits_per_s", "commits/s", ",.0f"),
    Column("commit_cores", "broker cores", ",.3f"),
    Column("cpu_us_per_commit", "CPU µs/commit", ",.0f"),
    Column("rss_mb", "RSS MB", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report(f"{MEMBERS} members on {PARTITIONS} partitions; commits", COLUMNS, ("server",))
    options.servers = tuple(name for name in options.servers if name != "sink")  # It knows no groups.
    with lineup(options) as running:

        def measure(server: Server) -> dict[str, float | None]:
            job = {"client": "groups", "value_size": 1}
            with running.topic(server, PARTITIONS) as topic:
                joined = running.measure(
                    server, "rebalance", topic, partitions=PARTITIONS, count=MEMBERS, **job
                )
            seconds = max(COMMIT_SECONDS, options.seconds)
            with running.topic(server) as topic:
                committed = running.measure(server, "commits", topic, seconds=seconds, **job)
            return {
                "stable_s": joined.seconds,
                "rebalance_cpu_s": joined.broker_cpu_seconds,
                "commits_per_s": committed.records / committed.seconds,
                "commit_cores": committed.broker_cpu_seconds / committed.seconds,
                "cpu_us_per_commit": committed.broker_cpu_seconds / committed.records * 1e6,
            }

        for name, figures in running.rounds("groups", measure).items():
            report.rows.append({"server": name} | figures)
        report.notes = running.notes()
    ours = {"server": "tidelog"}
    report.checks = [
        Check("last join to stable", report.value("stable_s", **ours), 3, False, "s"),
        Check(f"{COMMITS_PER_SECOND:,} commits/s", report.value("commit_cores", **ours), 0.5, False, "cores"),
    ]
    return [report]
