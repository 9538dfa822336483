"""Ten minutes of full load on three brokers: no leader may change and no replica may fall out of sync.

A busy machine makes everyone late, and whoever takes late for dead moves leaders for nothing. Old segments
are deleted all the time, so that the load can go on for longer than the disk is large.
"""

import threading
import time

from bench.cluster import ClusterServer, tidelog_cluster
from bench.lineup import Options, largest_rss_mb, work_directory
from bench.load.client import LoadProcess
from bench.load.job import Job
from bench.process import BenchError
from bench.report import Check, Column, Report
from bench.servers import PARTITIONS_MAX, Topics

TOPIC = "bench-steady"
VALUE_SIZE = 1_000
SLICE_SECONDS = 20.0
WATCH_SECONDS = 0.2
BROKER_SETTINGS = {"log.retention.check.interval.ms": "1000"}
TOPIC_SETTINGS = {"segment.bytes": str(16 << 20), "retention.bytes": str(32 << 20)}
COLUMNS = (
    Column("seconds", "seconds", ",.0f"),
    Column("mb_per_s", "MB/s", ",.0f"),
    Column("elections", "leader changes", ",.0f"),
    Column("shrunk", "replicas seen out of sync", ",.0f"),
    Column("rss_mb", "largest RSS MB", ",.0f"),
)


class Watcher(threading.Thread):
    """Looks at leaders and in-sync sets all the time."""

    def __init__(self, cluster: ClusterServer) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._ending = threading.Event()
        self._epochs = [part.leader_epoch for part in cluster.partitions(TOPIC)]
        self.elections = 0
        self.shrunk: set[tuple[int, int, int]] = set()  # partition, leader epoch, replica

    def run(self) -> None:
        while not self._ending.wait(WATCH_SECONDS):
            try:
                found = self._cluster.partitions(TOPIC)
            except BenchError:
                continue  # too busy to answer within a second, which is what full load is about
            for index, part in enumerate(found):
                self.elections += part.leader_epoch - self._epochs[index]
                self._epochs[index] = part.leader_epoch
                missing = set(part.replicas) - set(part.in_sync)
                self.shrunk |= {(index, part.leader_epoch, replica) for replica in missing}

    def end(self) -> None:
        self._ending.set()
        self.join(30)


def run(options: Options) -> list[Report]:
    report = Report("three brokers at full load, acks=all, 3 replicas", COLUMNS, ("server",))
    seconds = options.minutes * 60
    with work_directory() as directory:
        cluster = tidelog_cluster(directory / "tidelog", 3, more=BROKER_SETTINGS)
        load = LoadProcess()
        try:
            cluster.start()
            Topics(cluster, 3).create(TOPIC, PARTITIONS_MAX, TOPIC_SETTINGS)
            watcher = Watcher(cluster)
            watcher.start()
            written, spent = _flood(cluster, load, seconds, options)
            watcher.end()
            report.rows.append(
                {
                    "server": cluster.name,
                    "seconds": spent,
                    "mb_per_s": written / spent / 1e6,
                    "elections": watcher.elections,
                    "shrunk": len(watcher.shrunk),
                    "rss_mb": largest_rss_mb(cluster),
                }
            )
        finally:
            load.stop()
            cluster.stop()
    ours = {"server": "tidelog"}
    report.checks = [
        Check("leader changes", report.value("elections", **ours), 0, False, ""),
        Check("replicas that fell out of sync", report.value("shrunk", **ours), 0, False, ""),
    ]
    return [report]


def _flood(
    cluster: ClusterServer, load: LoadProcess, seconds: float, options: Options
) -> tuple[float, float]:
    written = spent = 0.0
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        with options.console.status(f"full load, {elapsed:.0f} of {seconds:.0f} s"):
            outcome = load.run(
                Job(
                    kind="produce",
                    client="librdkafka",
                    bootstrap=cluster.bootstrap,
                    broker_pids=cluster.pids,
                    topic=TOPIC,
                    value_size=VALUE_SIZE,
                    partitions=PARTITIONS_MAX,
                    acks="all",
                    seconds=min(SLICE_SECONDS, seconds),
                )
            )
        written += outcome.records * VALUE_SIZE
        spent += outcome.seconds
    return written, spent
