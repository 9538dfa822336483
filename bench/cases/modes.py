"""What each replication mode costs: the same writes to topics of every mode, on the same three brokers, in
turns.

The figures of other queues are quoted, not measured here: seen on a machine of this size with their own
clients, the best of single, asynchronous and batch sends.
"""

from collections.abc import Callable

from bench.cases import quorum
from bench.cases.kinds import (
    ASYNC,
    DOUBLE,
    ISR_ALL,
    ISR_ONE,
    ISR_THREE,
    QUORUM,
    QUORUM_UNSYNCED,
    Kind,
)
from bench.cases.replicated import LONE, LONE_SIZE, SIZES, THROUGHPUT
from bench.lineup import Lineup, Load, Options, lineup
from bench.report import Check, Report, merge_rounds
from bench.servers import PARTITIONS_MAX, Server, Topics

BROKERS = 3


KINDS = (ISR_ONE, ASYNC, ISR_ALL, DOUBLE, ISR_THREE, QUORUM_UNSYNCED, QUORUM)

THROUGHPUT_TARGETS = ((ASYNC, ISR_ONE, 0.9), (DOUBLE, ISR_ALL, 1.0), (QUORUM_UNSYNCED, ISR_THREE, 0.9))
"""(a kind, another one, how much of its rate the first is to reach)"""
LONE_TARGETS = ((ASYNC, 0.6), (DOUBLE, 1.0))
"""(a kind, how many milliseconds the middle one of its lone writes may take)"""
ROCKETMQ_MSG_PER_S = {100: 180_000, 1_000: 65_000, 10_000: 12_500}  # 180 k msg/s, 60 to 70 MB/s, 125 MB/s
QUOTED = (
    "RocketMQ 5.5 as seen elsewhere on such a machine, not measured here: asynchronous and synchronous about "
    "180 k msg/s of 100 B, 60 to 70 MB/s of 1 KB, 125 MB/s of 10 KB; a lone write 0.27 and 0.46 ms."
)


def run(options: Options) -> list[Report]:
    options.servers = ("tidelog",)
    with lineup(options, BROKERS) as running:
        running.warm_up(
            Load("produce", 1_000, PARTITIONS_MAX, "all"),
            Load("latency", LONE_SIZE, acks="all"),
        )
        reports = [_throughput(running), _lone_write(running)]
        reports[-1].notes = [QUOTED, *running.notes()]
    return [*reports, *quorum.run(options)]


def _throughput(running: Lineup) -> Report:
    report = Report(f"produce to {PARTITIONS_MAX} partitions, by mode", THROUGHPUT, ("size", "mode"))
    for size in SIZES:
        found = _rounds(running, "produce", size, PARTITIONS_MAX)
        report.rows += [{"size": size, "mode": name} | figures for name, figures in found.items()]
        for kind, other, bound in THROUGHPUT_TARGETS:
            ratio = report.ratio("records_per_s", _row(size, kind), _row(size, other))
            report.checks.append(Check(f"{size:,} B: {kind.name}, over {other.name}", ratio, bound))
        for kind in (ASYNC, DOUBLE):
            rate = report.value("records_per_s", **_row(size, kind))
            ratio = None if rate is None else rate / ROCKETMQ_MSG_PER_S[size]
            report.checks.append(Check(f"{size:,} B: {kind.name}, over RocketMQ's as quoted", ratio, 2.0))
    return report


def _row(size: int, kind: Kind) -> dict[str, int | str]:
    return {"size": size, "mode": kind.name}


def _lone_write(running: Lineup) -> Report:
    report = Report("lone 1 KB write, by mode", LONE, ("mode",))
    found = _rounds(running, "latency", LONE_SIZE, 1)
    report.rows = [{"mode": name} | figures for name, figures in found.items()]
    report.checks = [
        Check(f"{kind.name}: p50", report.value("p50_ms", mode=kind.name), bound, False, "ms")
        for kind, bound in LONE_TARGETS
    ]
    return report


def _rounds(
    running: Lineup, kind_of_load: str, size: int, partitions: int
) -> dict[str, dict[str, float | None]]:
    """Every kind in every round, beginning with another one each time; medians by name."""
    [server] = running.servers
    collected: dict[str, list[dict[str, float | None]]] = {kind.name: [] for kind in KINDS}
    for number in range(running.options.rounds):
        first = number % len(KINDS)
        for kind in KINDS[first:] + KINDS[:first]:
            with running.options.console.status(f"{kind_of_load} {size} B: {kind.name}, round {number + 1}"):
                measure = _measurement(running, server, kind, kind_of_load, size, partitions)
                collected[kind.name].append(measure(f"modes-{kind_of_load}-{size}-{number}"))
    return {name: merge_rounds(found) for name, found in collected.items()}


def _measurement(
    running: Lineup, server: Server, kind: Kind, kind_of_load: str, size: int, partitions: int
) -> Callable[[str], dict[str, float | None]]:
    topics = Topics(server, kind.replicas)

    def measure(topic: str) -> dict[str, float | None]:
        topics.create(topic, partitions, kind.settings)
        try:
            outcome = running.measure(
                server, kind_of_load, topic, value_size=size, partitions=partitions, acks=kind.acks
            )
        finally:
            topics.delete(topic)
        return outcome.throughput(size)

    return measure
