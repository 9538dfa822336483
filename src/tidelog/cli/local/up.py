"""``tidelog up``: a cluster on this machine, in the foreground."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tidelog.cli.local.cluster import DEFAULT_BROKERS, LocalCluster, known_brokers, lock_directory
from tidelog.cli.local.detached import detach, pid_file
from tidelog.cli.options import Settings, flag
from tidelog.cli.settings import parse_assignments
from tidelog.cli.units import with_units


def up(
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            metavar="N",
            min=1,
            help=f"Number of brokers; default: those in DIR, or {DEFAULT_BROKERS} if DIR is new.",
        ),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory for settings, logs and data.")
    ] = Path(".tidelog"),
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Port of broker 1; broker N listens on PORT + N − 1 (the same holds for http.port).",
        ),
    ] = 9092,
    detached: Annotated[
        bool, flag("--detach", help="Return when the cluster is ready; `tidelog down` stops it.")
    ] = False,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
) -> None:
    """Start a cluster on this machine, in the foreground or with --detach in the background.

    Prints one line that begins with "ready" when all brokers are up and replicated writes work. Ctrl-C
    stops all brokers cleanly; the same command continues with the same data. The first three brokers of a new
    DIR (five, if there are five or more) are also its controllers; brokers added later are not.

    Example: tidelog up --dir /tmp/tide --set num.partitions=3
    """
    settings = with_units(parse_assignments(assignments))
    root = directory.expanduser().resolve()
    count = brokers or max(known_brokers(root), default=DEFAULT_BROKERS)
    if detached:
        words = ["--brokers", str(count), "--dir", str(root), "--port", str(port)]
        words += [word for each in assignments for word in ("--set", each)]
        print(detach(root, words).replace("Ctrl-C stops", "`tidelog down` stops"))
        return
    cluster = LocalCluster(root, count, port, _report)
    with lock_directory(root), pid_file(root):
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
    _report("stopped; run the same command to continue with the same data")


def _report(sentence: str) -> None:
    print(f"tidelog: {sentence}", file=sys.stderr, flush=True)
