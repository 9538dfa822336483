"""What all ``tidelog pipeline`` commands share: the session, how far it is, a clean stop, and failures in one
sentence.
"""

import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.client import client_settings
from tidelog.cli.client_config import kafka_options
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.pipeline.errors import explained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines import Progress

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="A Spark cluster, such as spark://host:7077.",
        show_default="this machine",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="URL", help="A Spark Connect server, such as sc://host:15002."),
]
SparkSettings = Annotated[
    list[str],
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
]
SourceOptions = Annotated[
    list[str],
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="An option of the data source, such as kafka.security.protocol=SSL; may be repeated.",
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every",
        metavar="TIME",
        help="Run until Ctrl-C and look for new records at this interval, such as '10 seconds'.",
        show_default="process the existing records and exit",
    ),
]


_DONE = re.compile(r"(\d+) of (\d+)")


def pairs(given: list[str], option: str) -> dict[str, str]:
    """``KEY=VALUE`` words as a mapping."""
    found = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidCommandLine(f"{option} {word} is not of the form KEY=VALUE.")
        found[key.strip()] = value
    return found


def source_options(bootstrap: str, given: list[str]) -> dict[str, str]:
    """The words of --option, over what the file of --config says about connections."""
    return kafka_options(bootstrap) | pairs(given, "--option")


@contextmanager
def spark_session(
    name: str,
    master: str | None,
    remote: str | None,
    settings: list[str],
    *,
    bootstrap: str | None = None,
) -> "Iterator[SparkSession]":
    """A session for one command; everything that can go wrong with Spark becomes one sentence. ``bootstrap``:
    the brokers it needs, if any.
    """
    if master is not None and remote is not None:
        raise InvalidCommandLine("--master and --remote exclude each other.")
    if bootstrap is not None and remote is None:
        # Before Spark takes its time to start; a Connect server may reach brokers that we do not.
        client_settings(bootstrap)
    try:
        from tidelog.spark.pipelines import open_session
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"This needs {error.name}, which is not installed: pip install 'tidelog[spark]'."
        ) from None
    chosen = pairs(settings, "--conf")
    # What Spark thinks of the versions of its own packages is nothing that a user of a command can act on.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
    with explained():
        session = open_session(f"tidelog pipeline {name}", master=master, remote=remote, settings=chosen)
        if remote is None and "spark.log.level" not in chosen:
            # What fails is told in one sentence, not by the traces of every task.
            session.sparkContext.setLogLevel("FATAL")
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def stop_on_signals() -> Iterator[Event]:
    """Set by Ctrl-C or SIGTERM: the pipeline ends cleanly and goes on from there the next time."""
    stop = Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def shown_progress(name: str, quiet: bool) -> "Iterator[Callable[[Progress], None]]":
    """A progress line on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield lambda progress: None
        return
    columns: list[Any] = [
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    ]  # fmt: skip
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None, said="starting Spark")

        def tell(progress: "Progress") -> None:
            if not progress.counts:
                bar.update(task, said=progress.what)
                if done := _DONE.search(progress.what):
                    bar.update(task, completed=int(done[1]), total=int(done[2]))
                return
            speed = f", {progress.rows_per_second:,.0f}/s" if progress.rows_per_second else ""
            bar.update(task, said=f"{progress.rows:,} {progress.what}{speed}")

        yield tell
