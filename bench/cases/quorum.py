"""Topics whose replicas vote: what 500 of their partitions cost at rest, and how long writes stand still when
a leader is killed.

DLedger's figures are quoted, not measured here: 14 to 25 s with a default client, 7.5 s with a tuned one.
"""

import time
from contextlib import ExitStack

from bench.cases import failover
from bench.cases.cluster_scale import BROKERS, IDLE_SECONDS, SETTLE_SECONDS, idle_cpu_of, write_to_each
from bench.cases.failover_faults import KILLED
from bench.cluster import ClusterServer, tidelog_cluster
from bench.lineup import Options, work_directory
from bench.report import Check, Column, Report
from bench.servers import Topics

QUIET_TOPIC = "bench-quiet"
QUIET_PARTITIONS = 500
MODE = {"replication.mode": "quorum"}
QUIET = (
    Column("created_s", "500 partitions writable s", ",.2f"),
    Column("empty_cpu", "idle CPU % a broker without them", ",.1f"),
    Column("idle_cpu", "idle CPU % a broker", ",.1f"),
)


def run(options: Options) -> list[Report]:
    with work_directory() as directory, ExitStack() as stack:
        cluster = tidelog_cluster(directory / "tidelog", BROKERS)
        stack.callback(cluster.stop)
        with options.console.status("starting"):
            cluster.start()
        return [_failover(cluster, options), _quiet(cluster, options)]


def _failover(cluster: ClusterServer, options: Options) -> Report:
    report = Report("quorum: time without an acknowledged write", failover.COLUMNS, ("fault", "server"))
    topics = Topics(cluster, BROKERS)
    topics.create(failover.TOPIC, BROKERS, MODE)
    killed = KILLED
    report.rows = [failover.measure(cluster, topics, killed, options.failover_rounds, options)]
    topics.delete(failover.TOPIC)
    where = {"fault": killed.name, "server": cluster.name}
    report.checks = [
        Check("killed: p50", report.value("p50_ms", **where), 300, at_least=False, unit="ms"),
        Check("killed: worst", report.value("worst_ms", **where), 1_000, at_least=False, unit="ms"),
    ]
    return report


def _quiet(cluster: ClusterServer, options: Options) -> Report:
    report = Report("quorum: 500 quiet partitions", QUIET, ("server",))
    seconds = 3.0 if options.quick else IDLE_SECONDS
    time.sleep(SETTLE_SECONDS)
    empty_cpu = idle_cpu_of(cluster, seconds)
    began = time.perf_counter()
    Topics(cluster, BROKERS).create(QUIET_TOPIC, QUIET_PARTITIONS, MODE)
    write_to_each(cluster, QUIET_TOPIC, range(QUIET_PARTITIONS))
    created_s = time.perf_counter() - began
    time.sleep(SETTLE_SECONDS)
    figures = {"created_s": created_s, "empty_cpu": empty_cpu, "idle_cpu": idle_cpu_of(cluster, seconds)}
    report.rows = [{"server": cluster.name} | figures]
    idle_cpu = report.value("idle_cpu", server=cluster.name)
    report.checks = [Check("idle CPU of a broker", idle_cpu, 3, at_least=False, unit="%")]
    return report
