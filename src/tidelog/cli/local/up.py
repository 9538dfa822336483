"""``tidelog up``: a cluster on this machine, in the foreground."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tidelog.cli.failure import InvalidCommandLine
from tidelog.cli.local.browser import forget_page, open_page
from tidelog.cli.local.cluster import DEFAULT_BROKERS, LocalCluster, count_of, lock_directory
from tidelog.cli.local.detached import CLIENT_LINE, detach, pid_file
from tidelog.cli.local.page import PageProcess, http_ports
from tidelog.cli.local.relay import RelayKeeper
from tidelog.cli.options import Settings, flag
from tidelog.cli.settings import parse_assignments
from tidelog.cli.units import with_units
from tidelog.lab.playground import links


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
    no_page: Annotated[
        bool, flag("--no-page", help="Do not start the web page (`tidelog page`).", envvar="TIDELOG_NO_PAGE")
    ] = False,
    page_port: Annotated[
        int | None,
        typer.Option(
            "--page-port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Port of the web page; default: 8080, or a free one if that is in use.",
        ),
    ] = None,
    demo: Annotated[
        bool,
        flag(
            "--demo",
            help="Start loads on four topics of different modes, and open the page's playground. Brokers "
            "reach each other through a relay, so that one can be cut off there.",
        ),
    ] = False,
    tls: Annotated[
        bool,
        flag(
            "--tls",
            help="Encrypt all connections and ask clients for a certificate: makes certificates in DIR/tls, "
            "and DIR/client.properties, which the commands find. DIR keeps it.",
        ),
    ] = False,
    assignments: Settings = [],  # noqa: B006 — typer reads the default and never changes it
) -> None:
    """Start a cluster on this machine, in the foreground or with --detach in the background.

    Prints one line that begins with "ready" when all brokers are up and replicated writes work. Below it,
    there is the path of a client.properties, with --tls, and the address of a web page about the cluster,
    which can also start loads and kill brokers. Ctrl-C stops all of it cleanly; the same command continues
    with the same data. The first three brokers of a new DIR (five, if there are five or more) are also its
    controllers; brokers added later are not.

    Example: tidelog up --dir /tmp/tide --set num.partitions=3
    """
    settings = with_units(parse_assignments(assignments))
    root = directory.expanduser().resolve()
    count = brokers or count_of(root)
    if demo and no_page:
        raise InvalidCommandLine("--demo is on the page; leave out --no-page and TIDELOG_NO_PAGE.")
    if demo and count < DEFAULT_BROKERS:
        raise InvalidCommandLine(f"--demo needs at least {DEFAULT_BROKERS} brokers.")
    if detached:
        words = ["--brokers", str(count), "--dir", str(root), "--port", str(port)]
        words += [word for each in assignments for word in ("--set", each)]
        words += ["--no-page"] if no_page else []
        words += ["--demo"] if demo else []
        words += ["--tls"] if tls else []
        words += ["--page-port", str(page_port)] if page_port is not None else []
        print(detach(root, words, has_page=not no_page).replace("Ctrl-C stops", "`tidelog down` stops"))
        return
    cluster = LocalCluster(root, count, port, _report, tls=tls)
    with lock_directory(root), pid_file(root):
        words = ["--demo"] if demo else []
        page = None if no_page else PageProcess(root, page_port, _report, words=words)
        if page is not None:
            settings |= http_ports(cluster.brokers, settings)
        links.remove(root)  # of a run that was killed
        relay = RelayKeeper(root, _report, page_port) if demo else None
        _run(cluster, settings, directory, page, relay)


def _run(
    cluster: LocalCluster,
    settings: dict[str, str],
    directory: Path,
    page: PageProcess | None,
    relay: RelayKeeper | None,
) -> None:
    """``relay``: only of a demo, whose page is opened, too."""

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        cluster.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask_to_stop)
    try:
        cluster.prepare(settings)
        if relay is not None:
            relay.start(cluster.brokers, settings)
        watch_relay = relay.watch if relay is not None else lambda: None
        cluster.start()
        if cluster.wait_ready(watch_relay):
            count = len(cluster.brokers)
            plural = "broker" if count == 1 else "brokers"
            print(
                f"ready {cluster.bootstrap} ({count} {plural}, data in {directory}; Ctrl-C stops)", flush=True
            )
            if cluster.client_file is not None:
                print(f"{CLIENT_LINE}{cluster.client_file}", flush=True)
            if page is not None and (address := page.start(cluster.bootstrap)):
                print(f"page {address}", flush=True)
                if relay is not None:
                    open_page(directory.expanduser(), address)
            cluster.watch(watch_relay)
        _report("stopping")
    finally:
        if page is not None:
            page.stop()
            forget_page(directory.expanduser())
        cluster.stop()
        if relay is not None:
            relay.stop()
    _report("stopped; run the same command to continue with the same data")


def _report(sentence: str) -> None:
    print(f"tidelog: {sentence}", file=sys.stderr, flush=True)
