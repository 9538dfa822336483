"""How long writes stand still when a broker goes away: killed, killed as the controller, drained, frozen.

A topic with one partition led by each broker gets a write every 5 ms; a fault strikes one broker, and the
longest time without an acknowledgement on any partition is what is reported, from the last one before to the
first one after. The client is librdkafka with its defaults and acks=all. Only for the frozen broker its
``socket.timeout.ms`` is 1 s: with the default of 60 s the client itself waits that long for the frozen
socket, which no server can shorten. Every run has a client of its own: librdkafka remembers for ten seconds
that a broker did not answer, and would wait for the successor that was the victim of the run before.

Of Tidelog two more reports: what an idempotent producer on one partition sees of a killed leader
(:mod:`bench.cases.failover_client`), and how long writes stand still when two of three brokers are killed and
started again (:mod:`bench.cases.failover_restart`).

With ``--history`` every write and every fault is kept as an event, and after each round all of its records
are read back.
"""

from contextlib import ExitStack
from typing import Any

from confluent_kafka import ElectionType, KafkaException

from bench.cases import failover_client, failover_restart
from bench.cases.cluster_scale import BROKERS, clusters
from bench.cases.failover_faults import FAULTS, Fault, strike
from bench.cluster import ClusterServer
from bench.distribution import COLUMNS as SPREAD
from bench.distribution import histogram, spread
from bench.lineup import Options, work_directory
from bench.load.steady import SteadyLoad, recording
from bench.process import BenchError, wait_until
from bench.report import Check, Column, Report
from bench.servers import Topics
from tidelog.lab.history import HistoryWriter

TOPIC = "bench-failover"
PEER_ROUNDS_MAX = 3  # each takes tens of seconds there
COLUMNS = (
    Column("runs", "runs", ",.0f"),
    *SPREAD,
    Column("return_ms", "worst at its return ms", ",.0f"),
    Column("failed", "failed writes", ",.0f"),
    Column("retries", "requests sent again", ",.0f"),
)


def run(options: Options) -> list[Report]:
    report = Report("time without an acknowledged write, acks=all, 3 replicas", COLUMNS, ("fault", "server"))
    more: list[Report] = []
    with work_directory() as directory:
        for cluster in clusters(options, directory):
            with ExitStack() as stack:
                stack.callback(cluster.stop)
                try:
                    _measure_all(cluster, options, report)
                    if cluster.name == "tidelog":
                        more = [failover_client.run(cluster, options), failover_restart.run(cluster, options)]
                except BenchError as error:
                    options.leave_out(cluster.name, error)
    order = [fault.name for fault in FAULTS]
    report.rows.sort(key=lambda row: order.index(row["fault"]))
    report.notes = [f"{row['fault']}, {row['server']}: {histogram(row['gaps_ms'])} ms" for row in report.rows]
    report.checks = _checks(report)
    return [report, *more]


def run_clients(options: Options) -> list[Report]:
    """Only the two reports of Tidelog, for more rounds than all faults allow."""
    reports: list[Report] = []
    with work_directory() as directory:
        for cluster in clusters(options, directory):
            if cluster.name == "tidelog":
                with ExitStack() as stack:
                    stack.callback(cluster.stop)
                    cluster.start()
                    reports = [failover_client.run(cluster, options), failover_restart.run(cluster, options)]
    return reports


def _measure_all(cluster: ClusterServer, options: Options, report: Report) -> None:
    with options.console.status(f"starting {cluster.name}"):
        cluster.start()
        topics = Topics(cluster, BROKERS)
        topics.create(TOPIC, BROKERS)
    rounds = options.failover_rounds
    if cluster.name != "tidelog":
        rounds = min(rounds, PEER_ROUNDS_MAX)
    for fault in FAULTS:
        with recording(options.history, fault.name, f"isr of {cluster.name}") as history:
            report.rows.append(measure(cluster, topics, fault, rounds, options, history))


def measure(
    cluster: ClusterServer,
    topics: Topics,
    fault: Fault,
    rounds: int,
    options: Options,
    history: HistoryWriter | None = None,
) -> dict[str, Any]:
    gaps: list[float] = []
    returns: list[float] = []
    failed = retries = 0
    for number in range(rounds):
        with options.console.status(f"{cluster.name}: {fault.name}, {number + 1} of {rounds}"):
            victim = _victim(cluster, topics, fault.of_controller)
            load = SteadyLoad(
                cluster.bootstrap, TOPIC, BROKERS, fault.settings, history=history, name=f"round {number + 1}"
            )
            load.start()
            try:
                gap, at_return = strike(cluster, load, TOPIC, fault, victim, history)
            finally:
                load.stop()
            if history is not None:
                load.read_back()
        gaps.append(gap * 1000)
        returns.append(at_return * 1000)
        failed += len(load.failed)
        retries += load.retries
    return {
        "fault": fault.name,
        "server": cluster.name,
        "runs": rounds,
        "return_ms": max(returns),
        "failed": failed,
        "retries": retries,
        **spread(gaps),
    }


def _victim(cluster: ClusterServer, topics: Topics, controller: bool) -> int:
    """A broker that leads a partition, and is the active controller or is not."""
    cluster.wait_in_sync(TOPIC)

    def leads_own() -> bool:
        return all(part.leader == part.replicas[0] for part in cluster.partitions(TOPIC))

    if not leads_own():
        try:
            topics.admin.elect_leaders(ElectionType.PREFERRED, None).result(timeout=30)
        except KafkaException as error:
            raise BenchError(f"{cluster.name} does not elect preferred leaders: {error}") from error
        wait_until(leads_own, 60, f"{cluster.name} giving every broker its partition back")
    wait_until(lambda: cluster.controller() >= 0, 60, f"an active controller of {cluster.name}")
    active = cluster.controller()
    leaders = [part.leader for part in cluster.partitions(TOPIC)]
    return next(leader for leader in leaders if (leader == active) is controller)


def _checks(report: Report) -> list[Check]:
    killed, controller, drained, frozen = ({"fault": fault.name, "server": "tidelog"} for fault in FAULTS)

    def check(name: str, key: str, where: dict[str, str], bound: float, unit: str = "ms") -> Check:
        return Check(name, report.value(key, **where), bound, at_least=False, unit=unit)

    return [
        check("killed: p50", "p50_ms", killed, 300),
        check("killed: worst", "worst_ms", killed, 1_000),
        check("killed with the controller: worst", "worst_ms", controller, 2_000),
        check("drained: failed writes", "failed", drained, 0, ""),
        check("drained: longest gap", "worst_ms", drained, 200),
        check("frozen, socket.timeout.ms=1000: worst", "worst_ms", frozen, 3_000),
    ]
