"""Many partitions on three brokers: how long until all of them are there, what they cost at rest, and how
long a kill and a restart take.

No client writes: what is measured is what a cluster does for partitions that are only there.
"""

import signal
import time
from contextlib import ExitStack

from bench.cases.cluster_scale import clusters, idle_cpu_of
from bench.cluster import ClusterServer
from bench.lineup import Options, work_directory
from bench.process import BenchError, resident_mb, wait_until
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import Topics

BROKERS = REPLICAS = 3
PARTITIONS, QUICK_PARTITIONS = 10_000, 1_000
PARTITIONS_OF_A_TOPIC = 1_000
SETTLE_SECONDS = 20.0  # Checkpoints and snapshots of what is new.
IDLE_SECONDS = 30.0  # Longer than the intervals of most periodic work.
GIVE_UP_SECONDS = 180.0
COLUMNS = (
    Column("created_s", "created s", ",.1f"),
    Column("rss_mb", "MB a broker", ",.0f"),
    Column("empty_cpu", "idle CPU % a broker without them", ",.1f"),
    Column("idle_cpu", "with them", ",.1f"),
    Column("led_s", "led elsewhere after a kill s", ",.1f"),
    Column("in_sync_s", "in sync after a restart s", ",.1f"),
)


def run(options: Options) -> list[Report]:
    partitions = QUICK_PARTITIONS if options.quick else PARTITIONS
    report = Report(f"{partitions:,} partitions with {REPLICAS} replicas, no load", COLUMNS, ("server",))
    found: dict[str, list[dict[str, float | None]]] = {}
    with work_directory() as directory:
        for cluster in clusters(options, directory):
            with ExitStack() as stack, options.console.status(cluster.name):
                stack.callback(cluster.stop)
                try:
                    found.setdefault(cluster.name, []).append(_measure(cluster, partitions, options))
                except (BenchError, OSError) as error:
                    options.leave_out(cluster.name, error)
    for name, rounds in found.items():
        report.rows.append({"server": name} | merge_rounds(rounds))
    report.checks = [
        Check("idle CPU of a broker", report.value("idle_cpu", server="tidelog"), 3, False, "%"),
        Check("led elsewhere after a kill", report.value("led_s", server="tidelog"), 2, False, "s"),
        Check("in sync after a restart", report.value("in_sync_s", server="tidelog"), 10, False, "s"),
    ]
    return [report]


def _measure(cluster: ClusterServer, partitions: int, options: Options) -> dict[str, float | None]:
    cluster.start()
    seconds = IDLE_SECONDS / 3 if options.quick else IDLE_SECONDS
    settle = SETTLE_SECONDS / 4 if options.quick else SETTLE_SECONDS
    time.sleep(settle)
    empty_cpu = idle_cpu_of(cluster, seconds)
    topics = [f"bench-many-{number}" for number in range(max(partitions // PARTITIONS_OF_A_TOPIC, 1))]
    began = time.perf_counter()
    create = Topics(cluster, REPLICAS)
    for topic in topics:
        create.create(topic, min(partitions, PARTITIONS_OF_A_TOPIC))
    _await(cluster, topics, in_sync=True)
    created_s = time.perf_counter() - began
    time.sleep(settle)
    figures = {
        "created_s": created_s,
        "rss_mb": sum(map(resident_mb, cluster.pids)) / BROKERS,
        "empty_cpu": empty_cpu,
        "idle_cpu": idle_cpu_of(cluster, seconds),
    }
    return figures | _kill_and_restart(cluster, topics)


def _kill_and_restart(cluster: ClusterServer, topics: list[str]) -> dict[str, float | None]:
    """One that is not the active controller."""
    controller = cluster.controller()
    victim = next(node for node in cluster.members if node != controller)
    began = time.perf_counter()
    cluster.signal(victim, signal.SIGKILL)
    cluster.await_end(victim)
    _await(cluster, topics, in_sync=False, avoid=victim)
    led_s = time.perf_counter() - began
    time.sleep(SETTLE_SECONDS / 4)
    began = time.perf_counter()
    cluster.launch_one(victim)
    _await(cluster, topics, in_sync=True)
    return {"led_s": led_s, "in_sync_s": time.perf_counter() - began}


def _await(cluster: ClusterServer, topics: list[str], *, in_sync: bool, avoid: int = -1) -> None:
    """Until all partitions have a leader that is up, and, if wanted, all replicas are in sync."""

    def complete() -> bool:
        try:
            found = cluster.view(*topics).topics
        except BenchError:
            return False
        return all(
            found.get(topic)
            and all(
                part.leader not in (-1, avoid) and (not in_sync or len(part.in_sync) == REPLICAS)
                for part in found[topic]
            )
            for topic in topics
        )

    wait_until(complete, GIVE_UP_SECONDS, "all leaders and replicas", pause=0.1)
