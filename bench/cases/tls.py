"""Writes to three replicas with all links encrypted: throughput at 1 KB, and a lone write beside that of the
same cluster without TLS.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.cases.replicated import LONE, OURS, PEER, THROUGHPUT
from bench.cluster import tidelog_cluster
from bench.lineup import Lineup, Load, Options, kafka_jars, work_directory
from bench.load.job import Outcome
from bench.report import Check, Report
from bench.servers import PARTITIONS_MAX, Server
from bench.tls import BROKERS, Certificates, TlsClusterServer, kafka_tls, tidelog_tls

SIZE = 1_000
PLAIN = "plain"  # Tidelog without TLS
PLAINLY = {"server": PLAIN}


class TlsLineup(Lineup):
    """The load comes by the listeners with TLS, where there are any."""

    def __init__(self, options: Options, directory: Path, stack: ExitStack) -> None:
        self._certificates = Certificates(directory / "tls")
        super().__init__(options, directory, stack, BROKERS)

    def _build(self, name: str, directory: Path) -> Server | None:
        if name == "tidelog":
            return tidelog_tls(directory, self._certificates)
        if name == PLAIN:
            server = tidelog_cluster(directory, BROKERS)
            server.name = PLAIN
            return server
        jar_directory = kafka_jars(self.options)
        return None if jar_directory is None else kafka_tls(directory, jar_directory, self._certificates)

    def run(self, server: Server, kind: str, topic: str, **job: Any) -> Outcome:
        if isinstance(server, TlsClusterServer):
            job |= {"bootstrap": server.tls_bootstrap, "client_settings": self._certificates.client}
        return super().run(server, kind, topic, **job)


def run(options: Options) -> list[Report]:
    names = [name for name in options.servers if name != "sink"]
    if "tidelog" in names:
        names.insert(1, PLAIN)
    with work_directory() as directory, ExitStack() as stack:
        running = TlsLineup(replace(options, servers=tuple(names)), directory, stack)
        running.warm_up(
            Load("produce", SIZE, PARTITIONS_MAX, "all"),
            Load("latency", SIZE, acks="all"),
        )
        reports = [_throughput(running), _lone_write(running)]
        reports[-1].notes = running.notes()
        options.left_out += [name for name in running.options.left_out if name not in options.left_out]
    return reports


def _throughput(running: TlsLineup) -> Report:
    title = f"produce 1 KB to {PARTITIONS_MAX} partitions with 3 replicas, acks=all, all links encrypted"
    report = Report(title, THROUGHPUT, ("server",))
    _measure(running, report, "produce", PARTITIONS_MAX)
    report.checks = [
        Check("msg/s over Kafka with TLS", report.ratio("records_per_s", OURS, PEER), 1.5),
        Check("msg/s over our own without TLS", report.ratio("records_per_s", OURS, PLAINLY), 0.5),
    ]
    return report


def _lone_write(running: TlsLineup) -> Report:
    report = Report("lone 1 KB write to 3 replicas, acks=all, all links encrypted", LONE, ("server",))
    _measure(running, report, "latency", 1)
    report.checks = [
        Check("p50 over our own without TLS", report.ratio("p50_ms", OURS, PLAINLY), 1.3, False),
        Check("p50 over Kafka's with TLS", report.ratio("p50_ms", OURS, PEER), 1, False),
    ]
    return report


def _measure(running: TlsLineup, report: Report, kind: str, partitions: int) -> None:
    def measure(server: Server) -> dict[str, float | None]:
        with running.topic(server, partitions) as topic:
            outcome = running.measure(server, kind, topic, value_size=SIZE, partitions=partitions, acks="all")
        return outcome.throughput(SIZE)

    for name, figures in running.rounds(f"{kind} {SIZE} B", measure).items():
        report.rows.append({"server": name} | figures)
