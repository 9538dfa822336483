"""What one ordinary client sees of a killed leader: an idempotent producer on one partition.

Beside the bench with a partition for each broker, because such a client has few connections, and what it does
next depends on them. librdkafka connects to the brokers it needs. A producer on one partition needs its
leader; it has a second connection if it found the cluster through another broker. With one it asks there who
leads, the moment the leader's connection closes. Without one it has nobody to ask, connects to somebody else,
and, unless a request was under way, asks only by its timer, up to a second later; no server can shorten that.
``enable.sparse.connections=false`` keeps it connected with all brokers. So its rounds are told apart.
"""

import time
from collections.abc import Sequence
from typing import Any

from bench.cases.failover_faults import KILLED, strike
from bench.cases.kinds import ISR_THREE, QUORUM, Kind
from bench.cluster import ClusterServer
from bench.distribution import COLUMNS as SPREAD
from bench.distribution import histogram, spread
from bench.lineup import Options
from bench.load.steady import SteadyLoad, recording
from bench.report import Check, Column, Report
from bench.servers import Topics

KINDS = (ISR_THREE, QUORUM)  # the modes in which somebody else takes over
ALL, LONE, EVERY = "2 or more", "1, the leader", "all, enable.sparse.connections=false"
CLIENTS: Sequence[tuple[dict[str, Any], str | None]] = (
    ({}, None),
    ({"enable.sparse.connections": False}, EVERY),
)
CONNECTED_SECONDS = 1.0  # of load, so that the client's own figures tell its connections
COLUMNS = (Column("runs", "runs", ",.0f"), *SPREAD, Column("failed", "failed writes", ",.0f"))


def run(cluster: ClusterServer, options: Options) -> Report:
    report = Report(
        "leader killed: one idempotent producer on one partition", COLUMNS, ("mode", "connections")
    )
    for kind in KINDS:
        topic = f"bench-one-{kind.settings['replication.mode']}"
        Topics(cluster, kind.replicas).create(topic, 1, kind.settings)
        for settings, named in CLIENTS:
            rounds = options.failover_rounds if named is None else max(1, options.failover_rounds // 5)
            report.rows += _measure(cluster, kind, topic, settings, named, rounds, options)
    report.notes = [
        f"{row['mode']}, {row['connections']}: {histogram(row['gaps_ms'])} ms" for row in report.rows
    ]
    report.checks = _checks(report)
    return report


def _measure(
    cluster: ClusterServer,
    kind: Kind,
    topic: str,
    settings: dict[str, Any],
    named: str | None,
    rounds: int,
    options: Options,
) -> list[dict[str, Any]]:
    gaps: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    run_name = f"one producer, {KILLED.name}, {named or 'defaults'}"
    with recording(options.history, run_name, kind.name) as history:
        for number in range(rounds):
            with options.console.status(f"{kind.name}: {run_name}, {number + 1} of {rounds}"):
                cluster.wait_ready()
                cluster.wait_in_sync(topic)
                load = SteadyLoad(
                    cluster.bootstrap, topic, 1, {"enable.idempotence": True, **settings},
                    history=history, name=f"round {number + 1}",
                )  # fmt: skip
                load.start()
                try:
                    time.sleep(CONNECTED_SECONDS)
                    connections = named or (ALL if load.connections > 1 else LONE)
                    gap_s, _ = strike(cluster, load, topic, KILLED, _leader(cluster, topic), history)
                finally:
                    load.stop()
                if history is not None:
                    load.read_back()
            gaps.setdefault(connections, []).append(gap_s * 1000)
            failed[connections] = failed.get(connections, 0) + len(load.failed)
    return [
        {
            "mode": kind.name,
            "connections": connections,
            "runs": len(gaps[connections]),
            "failed": failed[connections],
            **spread(gaps[connections]),
        }
        for connections in (ALL, LONE, EVERY)
        if connections in gaps
    ]


def _leader(cluster: ClusterServer, topic: str) -> int:
    (partition,) = cluster.partitions(topic)
    return partition.leader


def _checks(report: Report) -> list[Check]:
    checks = []
    for kind in KINDS:
        for connections in (ALL, EVERY):
            where = {"mode": kind.name, "connections": connections}
            name = f"{kind.name}, connections: {connections}"
            checks.append(Check(f"{name}: p50", report.value("p50_ms", **where), 120, False, "ms"))
            checks.append(Check(f"{name}: worst", report.value("worst_ms", **where), 300, False, "ms"))
    return checks
