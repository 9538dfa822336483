"""The line-up of one bench run: which servers take part, their directory, their warm-up, and the interleaved
rounds.

Owns the order of things. Servers all run for the whole bench and take turns (A B C, B C A, …), so that a slow
minute of the machine hits all of them; the figures are medians over the rounds.

A measurement writes a limited volume, into memory that was in use just before, and its topic is gone when the
next one starts. A virtual machine gives free memory back to its host, and growing the page cache into memory
that the host has to find first costs ten times a plain write: without these limits whoever writes most pays
most, and the figures are the host's.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from bench import kafka
from bench.cluster import kafka_cluster, tidelog_cluster
from bench.load.client import LoadProcess
from bench.load.job import Job, Outcome
from bench.process import BenchError, resident_mb
from bench.profiling import Profiler
from bench.report import merge_rounds
from bench.servers import REPOSITORY, Server, SinkServer, TidelogServer, Topics

CACHE = REPOSITORY / ".cache"
WARM_LIMIT = 4
NAMES = ("tidelog", "sink", "kafka")


@dataclass(slots=True)
class Options:
    """What the command line asked for."""

    quick: bool = False
    rounds: int = 3
    failover_rounds: int = 30
    minutes: float = 10.0  # of the steady load and of the archive's drill
    faults: int | None = None  # of a series of them; None: one kill
    seed: int = 1  # from which the series is drawn
    table_format: str = "parquet"  # of the archive's drill
    standalone: bool = False  # the archive's drill on executors of their own
    raw: bool = False  # the archive's drill without a schema
    rows: int | None = None  # of the benches with Spark
    value_bytes: int | None = None  # of the bench of Spark's volume
    queries: tuple[str, ...] = ()  # of the bench with Spark; none: all
    seconds: float = 3.0  # per measurement
    volume_mb: int = 400  # written per measurement at most
    warm_seconds: float = 15.0  # per server, before the first measurement
    client: str = "librdkafka"
    servers: tuple[str, ...] = NAMES
    profile: str | None = None  # python or native
    history: Path | None = None  # where the events of faults are kept
    left_out: list[str] = field(default_factory=list)  # servers that were asked for and failed
    console: Console = field(default_factory=lambda: Console(stderr=True))

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{text}[/dim]")

    def leave_out(self, name: str, error: Exception) -> None:
        """A server failed: say so and go on with the others; the exit code will tell."""
        self.left_out.append(name)
        self.console.print(f"[bold red]{name} is left out:[/bold red] {escape(str(error))}", highlight=False)


@contextmanager
def work_directory(*, kept_after: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[Path]:
    """A directory on the disk of the checkout (a temporary directory may be memory), gone afterwards.

    After one of these errors it stays, with the logs of the brokers in it, and the error says where.
    """
    CACHE.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="bench-", dir=CACHE))
    try:
        yield directory
    except kept_after as error:
        raise BenchError(f"{error}. Logs and data of the brokers are kept in {directory}.") from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    shutil.rmtree(directory, ignore_errors=True)


def kafka_jars(options: Options) -> Path | None:
    """Where Kafka's jars are, or ``None`` after one plain sentence on why the bench goes on without Kafka."""
    tool = kafka.missing_tool()
    if tool is not None:
        options.say(f"Kafka is left out, because the program {tool} is not installed here.")
        return None
    try:
        with options.console.status(f"fetching Kafka {kafka.VERSION} (the first time only)"):
            return kafka.jars(CACHE)
    except BenchError as error:
        options.say(f"Kafka is left out: {error}")
        return None


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of warm-up load."""

    kind: str
    value_size: int
    partitions: int = 1
    acks: str = "1"


class Lineup:
    """The running servers of one bench, and the load process."""

    def __init__(self, options: Options, directory: Path, stack: ExitStack, brokers: int = 1) -> None:
        if brokers > 1 and options.client == "raw":
            raise BenchError("The raw client knows one broker only; a cluster is measured with librdkafka.")
        self.options = options
        self.brokers = brokers  # of each server; every topic has as many replicas, up to three
        self._directory = directory
        self.servers: list[Server] = []
        self._topics: dict[str, Topics] = {}
        self._next_topic = 0
        self.warmed_seconds: dict[str, float] = {}
        self.others_cores: list[float] = []  # cores that other processes used, per measurement
        self.load = LoadProcess()
        stack.callback(self.load.stop)
        self.profiler = Profiler(directory, options.profile)
        for name in options.servers:
            self._add(name, directory / name, stack)
        if not self.servers:
            raise BenchError("no server could be started, so there is nothing to measure")

    @property
    def replicas(self) -> int:
        return min(self.brokers, 3)

    def _add(self, name: str, directory: Path, stack: ExitStack) -> None:
        try:
            server = self._build(name, directory)
            if server is None:
                return
            stack.callback(server.stop)
            with self.options.console.status(f"starting {name}"):
                server.start()
        except BenchError as error:
            self.options.leave_out(name, error)
            return
        self.servers.append(server)
        self._topics[name] = Topics(server, self.replicas)

    def _build(self, name: str, directory: Path) -> Server | None:
        if name == "sink":
            # It keeps nothing, so it has nothing to replicate, either.
            return SinkServer(directory) if self.brokers == 1 else None
        if name == "tidelog":
            profile = self.profiler.cprofile_output
            if self.brokers > 1:
                return tidelog_cluster(directory, self.brokers, profile)
            return TidelogServer(directory, profile)
        jar_directory = kafka_jars(self.options)
        if jar_directory is None:
            return None
        if self.brokers > 1:
            return kafka_cluster(directory, jar_directory, self.brokers)
        return kafka.KafkaServer(directory, jar_directory)

    @contextmanager
    def topic(self, server: Server, partitions: int = 1) -> Iterator[str]:
        """A fresh topic, deleted afterwards so that its pages are free for the next measurement."""
        self._next_topic += 1
        name = f"bench-{self._next_topic:04d}"
        self._topics[server.name].create(name, partitions)
        try:
            yield name
        finally:
            self._topics[server.name].delete(name)

    def run(self, server: Server, kind: str, topic: str, **job: Any) -> Outcome:
        server.check_alive()
        job.setdefault("client", self.options.client)
        job.setdefault("seconds", self.options.seconds)
        job.setdefault("ramp_seconds", self.options.seconds / 3)
        if server.name != "sink":
            job.setdefault("max_bytes", self.options.volume_mb * 1_000_000)
        job = {"bootstrap": server.bootstrap} | job | {"broker_pids": server.pids}
        return self.load.run(Job(kind=kind, topic=topic, **job))

    def measure(self, server: Server, kind: str, topic: str, **job: Any) -> Outcome:
        """``run`` for the tables: into memory that is at hand, and with an eye on who else is running."""
        if kind != "consume" and server.name != "sink":
            written = self.options.volume_mb * 1_000_000 * self.replicas
            touch_page_cache(self._directory / "touched", written)
        outcome = self.run(server, kind, topic, **job)
        self.others_cores.append(outcome.other_cpu_seconds / outcome.seconds)
        return outcome

    def warm_up(self, *loads: Load) -> None:
        """Load on every server until its cost per record stops falling.

        Everyone gets ``warm_seconds``; whoever still gets cheaper then (a JVM compiles for a minute) gets
        more, up to ``WARM_LIMIT`` times as much: the figures are meant to be those of a broker that has run
        for long.
        """
        for server in self.servers:
            started = time.monotonic()
            spent = 0.0
            costs: list[float] = []
            with self.options.console.status(f"warming up {server.name}"):
                while not self._settled(spent, costs):
                    costs.append(sum(self._warm_once(server, load) for load in loads))
                    spent = time.monotonic() - started
            self.warmed_seconds[server.name] = spent

    def _warm_once(self, server: Server, load: Load) -> float:
        """The broker's CPU seconds per record."""
        with self.topic(server, load.partitions) as topic:
            job = {"value_size": load.value_size, "partitions": load.partitions, "acks": load.acks}
            outcome = self.run(server, load.kind, topic, seconds=1.0, **job)
        return outcome.broker_cpu_seconds / outcome.records

    def _settled(self, spent: float, costs: list[float]) -> bool:
        if spent >= self.options.warm_seconds * WARM_LIMIT:
            return True
        return spent >= self.options.warm_seconds and len(costs) >= 3 and costs[-1] > 0.9 * min(costs[:-1])

    def rounds(
        self, label: str, measure: Callable[[Server], dict[str, float | None]]
    ) -> dict[str, dict[str, Any]]:
        """``measure`` on every server in every round; medians by server name."""
        collected: dict[str, list[dict[str, float | None]]] = {server.name: [] for server in self.servers}
        for number in range(self.options.rounds):
            first = number % len(self.servers)
            for server in self.servers[first:] + self.servers[:first]:
                status = f"{label}: {server.name}, round {number + 1} of {self.options.rounds}"
                with self.options.console.status(status), self.profiler.around(server):
                    collected[server.name].append(measure(server) | {"rss_mb": largest_rss_mb(server)})
        return {name: merge_rounds(found) for name, found in collected.items()}

    def notes(self) -> list[str]:
        """How long every server was warmed up, and how much of the machine other processes took meanwhile."""
        warmed = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.warmed_seconds.items())
        cores = self.others_cores
        average = sum(cores) / len(cores) if cores else 0.0
        verdict = "quiet enough" if average < 0.2 else "the machine was busy: read the ratios, not the rates"
        worst = max(cores, default=0.0)
        noise = f"Other processes used {average:.2f} cores on average, {worst:.2f} at worst ({verdict})."
        return [f"Load before the first measurement: {warmed}.", noise]


@contextmanager
def lineup(options: Options, brokers: int = 1) -> Iterator[Lineup]:
    with work_directory() as directory, ExitStack() as stack:
        running = Lineup(options, directory, stack, brokers)
        yield running
        stack.close()
        running.profiler.show(options.console)


def largest_rss_mb(server: Server) -> float:
    """Of the broker that has most."""
    return max(resident_mb(pid) for pid in server.pids)


def touch_page_cache(path: Path, size: int) -> None:
    """Make the kernel hold ``size`` bytes, and free them for the page cache of whoever writes next."""
    block = b"\0" * (1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
    path.unlink()
