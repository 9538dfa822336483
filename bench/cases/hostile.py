"""A load beside 200 hostile connections: how much of its throughput is left, and whether leaders change.

Both loads are measured in turn, several times, because a slow minute of the machine must hit both. The
hostile process uses the same processors: its own time is reported.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.cases.steady import BROKER_SETTINGS, TOPIC_SETTINGS, Watcher
from bench.cluster import ClusterServer, tidelog_cluster
from bench.fuzzing.hostiles import WAYS
from bench.lineup import Options, largest_rss_mb, work_directory
from bench.load.client import LoadProcess
from bench.load.job import Job
from bench.process import BenchError, cpu_seconds
from bench.report import Check, Column, Report
from bench.servers import PARTITIONS_MAX, REPOSITORY, Topics
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.secret import make_secret

TOPIC = "bench-steady"  # the one that the watcher looks at
VALUE_SIZE = 1_000
HOSTILES, QUICK_HOSTILES = 200, 60
SLICE_SECONDS, QUICK_SLICE_SECONDS = 20.0, 5.0
ROUNDS_MAX = 3
LOSS_MAX_PERCENT = 20
COLUMNS = (
    Column("mb_per_s", "MB/s", ",.1f"),
    Column("p99_ms", "p99 ms", ",.1f"),
    Column("hostile_cpu", "CPU of hostile connections, cores", ",.2f"),
    Column("rss_mb", "largest RSS MB", ",.0f"),
)


@contextmanager
def hostiles(cluster: ClusterServer, count: int, seed: int) -> Iterator[int]:
    """So many of them, until the end of the block; their process."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "bench.fuzzing.hostiles",
            str(seed),
            str(count),
            *cluster.bootstrap.split(","),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise BenchError("the hostile connections did not start")
        yield process.pid
        if process.poll() is not None:
            raise BenchError("the hostile connections ended early")
        process.stdin.close()
        process.wait(30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def run(options: Options) -> list[Report]:
    count = QUICK_HOSTILES if options.quick else HOSTILES
    report = Report(f"a load of acks=all beside {count} hostile connections", COLUMNS, ("round", "load"))
    report.notes.append(f"The ways: {', '.join(way.__name__ for way in WAYS)}.")
    with work_directory() as directory:
        # Some of them say that they are nodes.
        secret = directory / "secret"
        make_secret(secret)
        cluster = tidelog_cluster(directory / "tidelog", 3, more={**BROKER_SETTINGS, SECRET: str(secret)})
        load = LoadProcess()
        try:
            cluster.start()
            Topics(cluster, 3).create(TOPIC, PARTITIONS_MAX, TOPIC_SETTINGS)
            watcher = Watcher(cluster)
            watcher.start()
            _measure(cluster, load, options, report, count)
            watcher.end()
            cluster.check_alive()
        finally:
            load.stop()
            cluster.stop()
    quiet, beside = (_median(report, each) for each in ("alone", "beside"))
    report.checks = [
        Check("throughput lost", 100 * (1 - beside / quiet), LOSS_MAX_PERCENT, False, "%"),
        Check("leader changes", watcher.elections, 0, False, ""),
    ]
    return [report]


def _measure(cluster: ClusterServer, load: LoadProcess, options: Options, report: Report, count: int) -> None:
    seconds = QUICK_SLICE_SECONDS if options.quick else SLICE_SECONDS
    _flood(cluster, load, seconds, options, report, 0, "warm-up")
    for number in range(1, min(options.rounds, ROUNDS_MAX) + 1):
        _flood(cluster, load, seconds, options, report, number, "alone")
        with hostiles(cluster, count, options.seed + 1000 * number) as pid:
            before = cpu_seconds(pid)
            _flood(cluster, load, seconds, options, report, number, "beside")
            report.rows[-1]["hostile_cpu"] = (cpu_seconds(pid) - before) / seconds


def _flood(
    cluster: ClusterServer,
    load: LoadProcess,
    seconds: float,
    options: Options,
    report: Report,
    number: int,
    name: str,
) -> None:
    with options.console.status(f"round {number}, {name}"):
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
                seconds=seconds,
            )
        )
    report.rows.append(
        {
            "round": number,
            "load": name,
            "mb_per_s": outcome.records * VALUE_SIZE / outcome.seconds / 1e6,
            "p99_ms": outcome.p99_ms,
            "hostile_cpu": None,
            "rss_mb": largest_rss_mb(cluster),
        }
    )


def _median(report: Report, load: str) -> float:
    return statistics.median(float(row["mb_per_s"]) for row in report.rows if row["load"] == load)
