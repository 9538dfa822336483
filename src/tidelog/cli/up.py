"""``tidelog up``: a cluster on this machine, in the foreground."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.local_cluster import LocalBroker, LocalCluster, lock_directory
from tidelog.cli.options import Settings
from tidelog.cli.settings import parse_assignments


def up(
    brokers: Annotated[
        int, typer.Option("--brokers", metavar="N", min=1, help="How many brokers to start.")
    ] = 1,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where settings, logs and data lie.")
    ] = Path(".tidelog"),
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Port of broker 1; broker N listens on PORT + N − 1.",
        ),
    ] = 9092,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
) -> None:
    """Start Tidelog on this machine, in the foreground.

    Prints one line that begins with "ready" as soon as clients can write. Ctrl-C stops everything cleanly;
    the same command goes on with the same data.

    Example: tidelog up --dir /tmp/tide --set num.partitions=3
    """
    if brokers > 1:
        raise CommandFailed("This version runs one broker; clusters of several come with the next one.")
    settings = parse_assignments(assignments)
    root = directory.expanduser().resolve()
    with lock_directory(root):
        cluster = LocalCluster(
            [LocalBroker(root / f"broker-{n}", n, port + n - 1) for n in range(1, brokers + 1)], _report
        )
        _run(cluster, settings, directory)


def _run(cluster: LocalCluster, settings: dict[str, str], directory: Path) -> None:
    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        cluster.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask_to_stop)
    try:
        cluster.start(settings)
        if cluster.wait_ready():
            count = len(cluster.brokers)
            plural = "broker" if count == 1 else "brokers"
            print(
                f"ready {cluster.bootstrap} ({count} {plural}, data in {directory}; Ctrl-C stops)", flush=True
            )
            cluster.watch()
        _report("stopping")
    finally:
        cluster.stop()
    _report("stopped; the same command goes on from here")


def _report(sentence: str) -> None:
    print(f"tidelog: {sentence}", file=sys.stderr, flush=True)
