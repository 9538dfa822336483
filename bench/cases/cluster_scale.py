"""Three brokers from their start to the first acks=all write, their idle memory, and 1,000 replicated
partitions: until all of them take writes, until they do again after a broker was killed, and their cost at
rest.

A bare socket tries every few milliseconds, because a client library's pauses would be measured instead.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import wire
from bench.cluster import ClusterServer, kafka_cluster, tidelog_cluster
from bench.lineup import Options, kafka_jars, work_directory
from bench.load.raw import Connection
from bench.process import BenchError, cpu_seconds, resident_mb
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import Topics

BROKERS = 3
FIRST_TOPIC = "bench-first"
MANY_TOPIC = "bench-many"
MANY_PARTITIONS = 1_000
ROUNDS_MAX = 3  # a start of Kafka's takes its time
SETTLE_SECONDS = 3.0
IDLE_SECONDS = 10.0
GIVE_UP_SECONDS = 120.0
COLUMNS = (
    Column("start_s", "start s", ",.2f"),
    Column("idle_mb", "idle MB a broker", ",.0f"),
    Column("created_s", "1,000 partitions writable s", ",.2f"),
    Column("many_mb", "MB a broker with them", ",.0f"),
    Column("idle_cpu", "idle CPU % a broker", ",.1f"),
    Column("failover_s", "writable after a kill s", ",.2f"),
)


def run(options: Options) -> list[Report]:
    report = Report("three brokers: start, memory, 1,000 partitions with 3 replicas", COLUMNS, ("server",))
    found: dict[str, list[dict[str, float | None]]] = {}
    for number in range(min(options.rounds, ROUNDS_MAX)):
        with work_directory() as directory:
            for cluster in clusters(options, directory):
                with ExitStack() as stack, options.console.status(f"{cluster.name}, round {number + 1}"):
                    stack.callback(cluster.stop)
                    try:
                        found.setdefault(cluster.name, []).append(_measure(cluster, options))
                    except (BenchError, OSError) as error:
                        options.leave_out(cluster.name, error)
    for name, rounds in found.items():
        report.rows.append({"server": name} | merge_rounds(rounds))
    report.checks = [
        _check(report, "start_s", "start to the first acks=all write", 1.5, "s"),
        _check(report, "idle_mb", "idle memory of a broker", 60, "MB"),
        _check(report, "created_s", "1,000 partitions created and writable", 3, "s"),
        _check(report, "failover_s", "all partitions of a killed broker writable", 2, "s"),
        _check(report, "idle_cpu", "idle CPU of a broker with 1,000 partitions", 5, "%"),
    ]
    return [report]


def _check(report: Report, key: str, name: str, bound: float, unit: str) -> Check:
    return Check(name, report.value(key, server="tidelog"), bound, at_least=False, unit=unit)


def clusters(options: Options, directory: Path) -> Iterator[ClusterServer]:
    """The clusters that take part, not yet started."""
    if "tidelog" in options.servers:
        yield tidelog_cluster(directory / "tidelog", BROKERS)
    if "kafka" in options.servers:
        jars = kafka_jars(options)
        if jars is not None:
            yield kafka_cluster(directory / "kafka", jars, BROKERS)


def _measure(cluster: ClusterServer, options: Options) -> dict[str, float | None]:
    start_s = _start(cluster)
    time.sleep(SETTLE_SECONDS)
    idle_mb = _mean([resident_mb(pid) for pid in cluster.pids])
    began = time.perf_counter()
    Topics(cluster, BROKERS).create(MANY_TOPIC, MANY_PARTITIONS)
    write_to_each(cluster, MANY_TOPIC, range(MANY_PARTITIONS))
    created_s = time.perf_counter() - began
    time.sleep(SETTLE_SECONDS)
    many_mb = _mean([resident_mb(pid) for pid in cluster.pids])
    idle_cpu = idle_cpu_of(cluster, 3.0 if options.quick else IDLE_SECONDS)
    return {
        "start_s": start_s,
        "idle_mb": idle_mb,
        "created_s": created_s,
        "many_mb": many_mb,
        "idle_cpu": idle_cpu,
        "failover_s": _failover(cluster),
    }


def _start(cluster: ClusterServer) -> float:
    """From the start of the processes to an acknowledged write to three replicas of a topic made then."""
    began = time.perf_counter()
    cluster.launch()
    cluster.wait_ready()
    Topics(cluster, BROKERS).create(FIRST_TOPIC, 1)
    write_to_each(cluster, FIRST_TOPIC, range(1))
    return time.perf_counter() - began


def idle_cpu_of(cluster: ClusterServer, seconds: float) -> float:
    """Percent of a core per broker."""
    before = sum(cpu_seconds(pid) for pid in cluster.pids)
    time.sleep(seconds)
    return (sum(cpu_seconds(pid) for pid in cluster.pids) - before) / seconds / BROKERS * 100


def _failover(cluster: ClusterServer) -> float:
    """Kill a broker that is not the controller; until each partition it led takes writes elsewhere."""
    cluster.wait_in_sync(MANY_TOPIC)
    controller = cluster.controller()
    led: dict[int, list[int]] = {node: [] for node in cluster.members}
    for index, part in enumerate(cluster.partitions(MANY_TOPIC)):
        led[part.leader].append(index)
    victim = max((node for node in led if node != controller), key=lambda node: len(led[node]))
    began = time.perf_counter()
    cluster.signal(victim, signal.SIGKILL)
    cluster.await_end(victim)
    write_to_each(cluster, MANY_TOPIC, led[victim], avoid=victim)
    return time.perf_counter() - began


def write_to_each(cluster: ClusterServer, topic: str, wanted: range | list[int], avoid: int = -1) -> None:
    """One acknowledged acks=all write to every partition, whoever leads it by then."""
    batch = wire.batch_of(b"x" * 100, 1, int(time.time() * 1000))
    missing = set(wanted)
    connections: dict[int, Connection] = {}
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while missing:
        if time.monotonic() > give_up:
            raise BenchError(f"{len(missing)} partitions of {topic} took no write for {GIVE_UP_SECONDS:g} s")
        by_leader: dict[int, list[int]] = {}
        for index, part in enumerate(cluster.partitions(topic)):
            if index in missing and part.leader not in (-1, avoid):
                by_leader.setdefault(part.leader, []).append(index)
        for leader, indexes in by_leader.items():
            if leader not in connections:
                connections[leader] = Connection(cluster.members[leader].port)
            missing -= _write(connections[leader], topic, indexes, batch)
        if missing:
            time.sleep(0.005)
    for connection in connections.values():
        connection.socket.close()


def _write(connection: Connection, topic: str, indexes: list[int], batch: bytes) -> set[int]:
    """The partitions that took it; all in one request, so that nobody's way with several counts."""
    answer = connection.ask(wire.produce_request_to_many(topic, indexes, batch, acks=-1))
    return {index for index, error in wire.produce_errors(bytes(answer)).items() if error == 0}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
