"""How long writes stand still when two of three brokers, the controllers' majority among them, are killed and
started again at once.

A topic of every mode with one partition gets a write every 5 ms from a client of its own. Reported from the
last acknowledgement before to the first after. The cluster's part is the start of the processes, the election
of a controller, and the registration; it is the same for all clients. A client adds its pause before it
connects again to a broker that refused it: librdkafka doubles it from 100 ms up to 10 s
(``reconnect.backoff.max.ms``). So each mode has two clients, one with the defaults and one with short pauses.
"""

import signal
import time
from contextlib import ExitStack
from typing import Any

from bench.cases.failover_faults import GIVE_UP_SECONDS, STEADY_SECONDS
from bench.cases.kinds import ASYNC, DOUBLE, ISR_THREE, QUORUM, Kind
from bench.cluster import ClusterServer
from bench.distribution import COLUMNS as SPREAD
from bench.distribution import spread
from bench.lineup import Options
from bench.load.steady import SteadyLoad
from bench.process import BenchError, wait_until
from bench.report import Check, Column, Report
from bench.servers import Topics

KINDS: dict[str, Kind] = {"isr": ISR_THREE, "async": ASYNC, "double": DOUBLE, "quorum": QUORUM}
SHORT, DEFAULTS = "short pauses", "defaults"
CLIENTS: dict[str, dict[str, Any]] = {
    SHORT: {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200},
    DEFAULTS: {},
}
ROUNDS_MAX = 10
WITHIN_MS = 3_000
COLUMNS = (
    Column("runs", "runs", ",.0f"),
    *SPREAD[:4],
    Column("failed", "failed writes", ",.0f"),
)


def run(cluster: ClusterServer, options: Options) -> Report:
    report = Report(
        "two of three brokers and the controllers' majority killed and started again at once",
        COLUMNS,
        ("client", "mode"),
    )
    for name, kind in KINDS.items():
        Topics(cluster, kind.replicas).create(_topic(name), 1, kind.settings)
    serves: list[float] = []
    rounds = min(options.failover_rounds, ROUNDS_MAX)
    for client, settings in CLIENTS.items():
        gaps: dict[str, list[float]] = {name: [] for name in KINDS}
        failed = dict.fromkeys(KINDS, 0)
        for number in range(rounds):
            with options.console.status(f"two killed, {client}, {number + 1} of {rounds}"):
                _round(cluster, settings, gaps, failed, serves)
        report.rows += [
            {"client": client, "mode": kind.name, "runs": rounds, "failed": failed[name]} | spread(gaps[name])
            for name, kind in KINDS.items()
        ]
    figures = spread(serves)
    report.notes = [
        f"Until both serve again: p50 {figures['p50_ms']:,.0f} ms, worst {figures['worst_ms']:,.0f} ms."
    ]
    report.checks = [
        Check(f"{kind.name}, {SHORT}: worst", _worst(report, kind), WITHIN_MS, False, "ms")
        for kind in KINDS.values()
    ]
    return report


def _worst(report: Report, kind: Kind) -> float | None:
    return report.value("worst_ms", client=SHORT, mode=kind.name)


def _topic(name: str) -> str:
    return f"bench-two-{name}"


def _round(
    cluster: ClusterServer,
    settings: dict[str, Any],
    gaps: dict[str, list[float]],
    failed: dict[str, int],
    serves: list[float],
) -> None:
    cluster.wait_ready()
    for name in KINDS:
        cluster.wait_in_sync(_topic(name))
    with ExitStack() as stack:
        loads = {
            name: SteadyLoad(cluster.bootstrap, _topic(name), 1, {"enable.idempotence": True, **settings})
            for name in KINDS
        }
        for load in loads.values():
            load.start()
            stack.callback(load.stop)
        for load in loads.values():
            load.wait_for_writes(time.monotonic() + STEADY_SECONDS, 30)
        victims = _victims(cluster)
        struck = time.monotonic()
        for victim in victims:
            cluster.signal(victim, signal.SIGKILL)
        for victim in victims:
            cluster.await_end(victim)
        for victim in victims:
            cluster.launch_one(victim)
        launched = time.monotonic()
        wait_until(cluster.is_ready, GIVE_UP_SECONDS, "the return of two brokers", pause=0.02)
        serves.append((time.monotonic() - struck) * 1000)
        for name, load in loads.items():
            load.wait_for_writes(launched, GIVE_UP_SECONDS)
            gaps[name].append(load.longest_gap_s(struck) * 1000)
    for name, load in loads.items():
        failed[name] += len(load.failed)


def _victims(cluster: ClusterServer) -> list[int]:
    """The active controller and the other broker that leads most."""
    active = cluster.controller()
    if active < 0:
        raise BenchError("there is no active controller to be killed")
    leaders = [part.leader for name in KINDS for part in cluster.partitions(_topic(name))]
    others = [node for node in cluster.members if node != active]
    return [active, max(others, key=leaders.count)]
