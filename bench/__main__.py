"""``python -m bench NAME`` (``./dev bench NAME``): run one bench, or ``all``, and print what it found."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import libversion
from confluent_kafka import version as client_version
from rich.console import Console

from bench import kafka, spark
from bench.cases import (
    access,
    archive_drill,
    consume,
    failover,
    faults,
    fuzz,
    groups,
    hostile,
    latency,
    loop,
    modes,
    page,
    plan,
    position,
    produce,
    relay,
    replicated,
    requests,
    scale,
    simulator,
    startup,
    steady,
    tls,
    transactions,
)
from bench.cases.failover_faults import FROZEN_SETTINGS
from bench.drill import tables
from bench.lineup import NAMES, WARM_LIMIT, Options
from bench.load import librdkafka, raw
from bench.process import BenchError
from bench.report import Report, machine, show, to_json

CASES: dict[str, tuple[Callable[[Options], list[Report]], str]] = {
    "produce": (produce.run, "throughput at 100 B, 1 KB and 10 KB to 1 and 12 partitions"),
    "requests": (requests.run, "one record per request: requests/s and what each costs"),
    "latency": (latency.run, "round trip of a lone 1 KB write"),
    "consume": (consume.run, "reading 1 KB records from the page cache"),
    "fetch-position": (position.run, "a fetch at the start, middle and end of a 10 GB log"),
    "startup": (startup.run, "start to first acknowledged write, idle memory, 1,000 partitions"),
    "transactions": (transactions.run, "what idempotence and transactions of 1,000 records cost"),
    "groups": (groups.run, "50 members on 200 partitions, and 1,000 commits of offsets a second"),
    "replicated": (replicated.run, "three brokers, acks=all: throughput, latency, start, 1,000 partitions"),
    "tls": (tls.run, "three brokers with all links encrypted: throughput and a lone write"),
    "scale": (scale.run, "10,000 replicated partitions: creation, memory, idle CPU, a kill and a restart"),
    "modes": (modes.run, "the replication modes beside each other: throughput and a lone write"),
    "page": (page.run, "the page in Chromium: first paint, frames with many partitions, a kill shown"),
    "plan": (plan.run, "the planner's predictions of latency and throughput beside measurements"),
    "failover": (failover.run, "time without writes when a broker is killed, drained or frozen"),
    "failover-client": (failover.run_clients, "the same as one ordinary client of Tidelog sees it"),
    "faults": (faults.run, "a broker killed under load on a topic of every mode, or a series of faults"),
    "access": (access.run, "what a check of the access rules costs a produce"),
    "fuzz": (fuzz.run, "ten million frames of strangers on the parsers: no crash, bounded memory"),
    "hostile": (hostile.run, "a load beside 200 hostile connections: throughput lost, leaders"),
    "loop": (loop.run, "how long each of the heavy operations holds a broker's event loop, under load"),
    "relay": (relay.run, "what the relay between all parties costs, which the lab makes network faults with"),
    "sim": (simulator.run_all, "simulated brokers: how much faster than real time on one core"),
    "spark": (spark.run, "Spark reading and writing topics, beside its own Kafka connector"),
    "spark-volume": (
        spark.run_volume,
        "Spark reading and archiving ten times as much: cost per row, memory and files",
    ),
    "archive-drill": (
        archive_drill.run,
        "an archive under kills, new fields, new topics; every record counted",
    ),
    "steady": (steady.run, "ten minutes of full load on three brokers without a false failover"),
}
RECORDED = ("failover", "failover-client", "faults")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    listing = "\n".join(f"  {name:<16}{about}" for name, (_, about) in CASES.items())
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="Measure Tidelog, a bare sink (the ceiling) and Apache Kafka (the peer) in one go.",
        epilog=f"benches:\n{listing}\n  {'all':<16}all of them",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*CASES, "all"], metavar="NAME", help="which bench; see below")
    option = parser.add_argument
    option("--quick", action="store_true", help="about a minute per bench: one round, short warm-up")
    option(
        "--rounds", type=int, help="interleaved rounds; medians are shown (default 7, failover 30; quick 1)"
    )
    option("--rows", type=int, help="of the spark benches (default 10 M, quick 1 M)")
    option("--value-bytes", type=int, help="of spark-volume: the size of values (default 1000)")
    option("--queries", help="of the spark and loop benches: those with one of these words in them (a,b)")
    option("--minutes", type=float, help="of steady and archive-drill (default 10, quick 0.5)")
    option("--faults", type=int, help="of the faults bench: a series of so many, of all kinds")
    option(
        "--seed",
        type=int,
        default=1,
        help="of faults, fuzz, hostile and archive-drill: which events, when and where",
    )
    option("--format", choices=tables.FORMATS, default="parquet", help="of archive-drill: the table format")
    option("--standalone", action="store_true", help="of archive-drill: on two executors, which are killed")
    option("--raw", action="store_true", help="of archive-drill: values are archived as they are")
    option("--seconds", type=float, help="per measurement at most (default 3, quick 1)")
    option("--volume", type=int, default=400, metavar="MB", help="per measurement at most (default 400)")
    option("--warm", type=float, help="least seconds of warm-up load per server (default 15, quick 3)")
    option("--client", choices=("librdkafka", "raw"), default="librdkafka", help="raw: a bare socket")
    option("--only", help=f"servers to run, separated by commas (default {','.join(NAMES)})")
    option("--no-kafka", action="store_true", help="leave the peer out")
    option("--history", metavar="DIR", help="of failover and faults: keep every event for the indicators")
    option("--profile", choices=("python", "native"), help="show where Tidelog's broker spends its time")
    option("--json", action="store_true", help="print one JSON object instead of tables")
    option("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser.parse_args(arguments)


def options_from(arguments: argparse.Namespace) -> Options:
    quick: bool = arguments.quick
    if arguments.history and arguments.name not in RECORDED:
        raise BenchError(f"--history is for {' and '.join(RECORDED)}; {arguments.name} keeps no events.")
    names = tuple(arguments.only.split(",")) if arguments.only else NAMES
    unknown = set(names) - set(NAMES)
    if unknown:
        raise BenchError(f"There is no server {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    if arguments.no_kafka:
        names = tuple(name for name in names if name != "kafka")
    return Options(
        quick=quick,
        rounds=arguments.rounds or (1 if quick else 7),
        failover_rounds=arguments.rounds or (2 if quick else 30),
        minutes=arguments.minutes or (0.5 if quick else 10.0),
        faults=arguments.faults,
        seed=arguments.seed,
        table_format=arguments.format,
        standalone=arguments.standalone,
        raw=arguments.raw,
        rows=arguments.rows,
        value_bytes=arguments.value_bytes,
        queries=tuple(arguments.queries.split(",")) if arguments.queries else (),
        seconds=arguments.seconds or (1.0 if quick else 3.0),
        volume_mb=arguments.volume,
        warm_seconds=arguments.warm if arguments.warm is not None else (3.0 if quick else 15.0),
        client=arguments.client,
        servers=names,
        profile=arguments.profile,
        history=Path(arguments.history) if arguments.history else None,
    )


def settings_of(options: Options, names: Sequence[str]) -> dict[str, Any]:
    """Everything that someone needs to repeat the run."""
    warm_up = f"{options.warm_seconds:g} s per server, up to {WARM_LIMIT} times that while it gets cheaper"
    settings: dict[str, Any] = {
        "client": options.client,
        "rounds": options.rounds,
        "measurement": f"{options.seconds:g} s or {options.volume_mb} MB, whichever comes first",
        "warm_up": warm_up,
        "kafka": f"{kafka.VERSION}, heap {kafka.HEAP}, otherwise its defaults",
        "fsync": "none by either broker (both defaults)",
    }
    if options.client == "raw":
        of_case: dict[str, Any] = {
            "produce": f"batches of {raw.BATCH_BYTES} B, {raw.BATCHES_IN_FLIGHT} in flight",
            "requests": f"{raw.REQUESTS_IN_FLIGHT} in flight",
        }
    else:
        settings["client"] = f"confluent-kafka {client_version()} with librdkafka {libversion()[0]}"
        of_case = {
            "produce": librdkafka.PRODUCE_SETTINGS,
            "requests": librdkafka.REQUESTS_SETTINGS,
            "latency": librdkafka.LATENCY_SETTINGS,
            "consume": librdkafka.CONSUME_SETTINGS,
            "replicated": librdkafka.PRODUCE_SETTINGS | {"acks": "all"},
            "failover": {"acks": "all", "frozen": FROZEN_SETTINGS},
        }
    return settings | {name: of_case[name] for name in names if name in of_case}


def main() -> int:
    arguments = parse(sys.argv[1:])
    reports: list[Report] = []
    try:
        options = options_from(arguments)
        names = list(CASES) if arguments.name == "all" else [arguments.name]
        settings = settings_of(options, names)
        if not arguments.json:
            _introduce(settings)
        for name in names:
            found = CASES[name][0](options)
            if options.client == "raw" and name in ("produce", "requests", "latency", "consume"):
                for report in found:  # the targets speak of confluent-kafka
                    report.drop_targets()
            reports += found
            if not arguments.json:
                show(found, _console())
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if arguments.json:
        print(to_json(reports, settings))
    missed = any(report.is_missed for report in reports if arguments.check or report.decides)
    return 1 if options.left_out or missed else 0


def _console() -> Console:
    """Written to a file, tables should be as wide as they need, not as wide as an imagined terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 130)


def _introduce(settings: dict[str, Any]) -> None:
    console = _console()
    place = machine()
    console.print(
        f"{place['date']}, {place['cores']} cores ({place['cpu']}), {place['memory_gb']} GB, "
        f"Linux {place['kernel']}, Python {place['python']}, load average {place['load_average']}"
    )
    for key, value in settings.items():
        text = (
            ", ".join(f"{name}={setting}" for name, setting in value.items())
            if isinstance(value, dict)
            else value
        )
        console.print(f"[dim]{key.replace('_', ' ')}: {text}[/dim]")
    console.print()


if __name__ == "__main__":
    sys.exit(main())
