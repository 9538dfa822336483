"""``tidelog plan calibrate``: what a write costs on this machine, with brokers that it starts itself.

Three brokers; a topic without followers, one whose leader syncs, and one with a follower. Lone writes for the
times, floods for the CPU. This process is the client. Everything is measured in rounds, so that the spread is
known.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan.costing import Calibration, path
from tidelog.lab.local.broker import BrokerError
from tidelog.lab.local.cluster import Cluster, running_cluster
from tidelog.lab.workload.usage import used_by
from tidelog.planner.costs import Figures, longer, quantiles

BROKERS = 3
PARTITIONS = 12
ROUNDS = 3
LONE_S = 1.2
FLOOD_S = 2.0
WARM_S = 1.5
VALUE = b"x" * 1000
BATCH = 250  # records of a call
FLOOD_MB_MAX = 300
DISK_MB = 64
RESPONSE_S = 30.0
BUSY = 0.7  # load average

ALONE, SYNCED, FOLLOWED = "alone", "synced", "followed"
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    ALONE: (1, {"min.insync.replicas": "1"}),
    SYNCED: (1, {"min.insync.replicas": "1", "flush.messages": "1"}),
    FOLLOWED: (2, {"min.insync.replicas": "2"}),
}
LONE_SETTINGS: dict[str, Any] = {"linger.ms": 0}
FLOOD_SETTINGS: dict[str, Any] = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "queue.buffering.max.messages": 1_000_000,
    "delivery.report.only.error": True,
}


class Flood(NamedTuple):
    mb_per_s: float
    client_cpu_s_per_mb: float
    broker_cpu_s_per_mb: float
    busy_cores: float


def calibrate(tell: Callable[[str], None], directory: Path | None = None) -> Calibration:
    busy = os.getloadavg()[0]
    if busy > BUSY:
        tell(
            f"The load average is {busy:.1f}: the machine does other things, and the figures suffer from it."
        )
    place = directory or path().parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="tidelog-calibrate-", dir=place) as work:
            tell(f"Starting {BROKERS} brokers.")
            with running_cluster(Path(work), BROKERS) as cluster:
                rounds = tuple(_rounds(cluster, tell))
    except (BrokerError, OSError) as error:
        raise CommandFailed(f"The brokers could not be measured: {error}") from None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Calibration(now, metadata.version("tidelog"), os.cpu_count() or 1, rounds)


def _rounds(cluster: Cluster, tell: Callable[[str], None]) -> Iterator[Figures]:
    tell("Warming up.")
    warm_up(cluster)
    for number in range(1, ROUNDS + 1):
        tell(f"Round {number} of {ROUNDS}.")
        yield measure_round(cluster, number)


def warm_up(cluster: Cluster) -> None:
    for name in TOPICS:
        with _topic(cluster, f"warm-{name}", name) as topic:
            lone_writes(cluster.bootstrap, topic, WARM_S / 3)
            flood(cluster, topic, WARM_S / 2)


def measure_round(cluster: Cluster, number: int) -> Figures:
    lone, floods = {}, {}
    for name in TOPICS:
        with _topic(cluster, f"{name}-{number}", name) as topic:
            lone[name] = quantiles(lone_writes(cluster.bootstrap, topic, LONE_S))
            if name == FOLLOWED:
                beside = quantiles(lone_writes(cluster.bootstrap, topic, LONE_S, acks="1"))
            touch(cluster.directory / "touched", FLOOD_MB_MAX * TOPICS[name][0])
            floods[name] = flood(cluster, topic, FLOOD_S)
    alone, followed = floods[ALONE], floods[FOLLOWED]
    return Figures(
        round_trip_ms=lone[ALONE],
        beside_ms=longer(beside, lone[ALONE]),
        follower_ms=longer(lone[FOLLOWED], beside),
        sync_ms=longer(lone[SYNCED], lone[ALONE]),
        client_cpu_s_per_mb=alone.client_cpu_s_per_mb,
        leader_cpu_s_per_mb=alone.broker_cpu_s_per_mb,
        follower_cpu_s_per_mb=max(followed.broker_cpu_s_per_mb - alone.broker_cpu_s_per_mb, 0.0),
        busy_cores=max(alone.busy_cores, followed.busy_cores),
        sync_s_per_mb=max(1 / floods[SYNCED].mb_per_s - 1 / alone.mb_per_s, 0.0),
        disk_s_per_mb=disk_s_per_mb(cluster.directory / "synced"),
    )


@contextmanager
def _topic(cluster: Cluster, topic: str, kind: str) -> Iterator[str]:
    from tidelog.cli.client import connect_admin
    from tidelog.cli.topic import admin as topic_admin

    replicas, settings = TOPICS[kind]
    cluster.create_topic(topic, mode="isr", partitions=PARTITIONS, replicas=replicas, settings=settings)
    try:
        yield topic
    finally:
        topic_admin.delete(connect_admin(cluster.bootstrap), topic)


def _producer(bootstrap: str, topic: str, settings: dict[str, Any], failed: list[str]) -> Any:
    """Connected: one record to every partition has been acknowledged."""
    from confluent_kafka import Producer

    common = {"bootstrap.servers": bootstrap, "acks": "all", "compression.type": "none", "log_level": 2}
    producer = Producer(common | settings)
    for partition in range(PARTITIONS):
        producer.produce(topic, VALUE, partition=partition, on_delivery=_noting(failed))
    _finish(producer, failed)
    return producer


def _noting(failed: list[str]) -> Callable[[Any, Any], None]:
    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    return delivered


def _finish(producer: Any, failed: list[str]) -> None:
    if producer.flush(RESPONSE_S) or failed:
        raise CommandFailed(f"A write was not acknowledged: {failed[0] if failed else 'no answer'}.")


def disk_s_per_mb(path: Path) -> float:
    chunk = bytes(1_000_000)
    with path.open("wb") as file:
        before = time.perf_counter()
        for _ in range(DISK_MB):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        took = time.perf_counter() - before
    path.unlink()
    return took / DISK_MB


def touch(path: Path, megabytes: int) -> None:
    """Use as much memory as will be written, so that it is at hand: a virtual machine gives free memory back,
    and the first use of it is several times as expensive.
    """
    chunk = bytes(1_000_000)
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(chunk)
    path.unlink()


def lone_writes(bootstrap: str, topic: str, seconds: float, acks: str = "all") -> list[float]:
    """Milliseconds of writes one after the other, each when the one before has been acknowledged."""
    failed: list[str] = []
    producer = _producer(bootstrap, topic, LONE_SETTINGS | {"acks": acks}, failed)
    found: list[float] = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        producer.produce(topic, VALUE, partition=0, on_delivery=_noting(failed))
        while len(producer):
            producer.poll(1)
        found.append((time.perf_counter() - before) * 1000)
    _finish(producer, failed)
    return found


def flood(cluster: Cluster, topic: str, seconds: float) -> Flood:
    """What is acknowledged while the client's queue is full, and what it costs."""
    failed: list[str] = []
    producer = _producer(cluster.bootstrap, topic, FLOOD_SETTINGS, failed)
    messages = [{"value": VALUE} for _ in range(BATCH)]
    partitions = cycle(range(PARTITIONS))

    def send(seconds: float, records_max: int) -> int:
        end, sent = time.perf_counter() + seconds, 0
        while time.perf_counter() < end and sent < records_max:
            accepted: int = producer.produce_batch(
                topic, messages, partition=next(partitions), on_delivery=_noting(failed)
            )
            sent += accepted
            producer.poll(0 if accepted == BATCH else 0.005)
        return sent

    most = FLOOD_MB_MAX * 1_000_000 // len(VALUE)
    send(seconds / 4, most // 4)
    pending = len(producer)
    wall, client, brokers = time.perf_counter(), time.process_time(), _cpu_s(cluster)
    acknowledged = send(seconds, most) + pending - len(producer)
    took = time.perf_counter() - wall
    client, brokers = time.process_time() - client, _cpu_s(cluster) - brokers
    _finish(producer, failed)
    megabytes = acknowledged * len(VALUE) / 1e6
    if megabytes <= 0:
        raise CommandFailed("Nothing was acknowledged within the time of a measurement.")
    return Flood(megabytes / took, client / megabytes, brokers / megabytes, (client + brokers) / took)


def _cpu_s(cluster: Cluster) -> float:
    used = [used_by(broker.pid) for broker in cluster]
    return sum(each.cpu_us for each in used if each is not None) / 1e6
