"""The planner's predictions beside measurements of settings that the calibration does not have."""

import os

from bench.cases.kinds import (
    ASYNC,
    DOUBLE,
    ISR_THREE,
    QUORUM,
    QUORUM_UNSYNCED,
    SYNCED_THREE,
    Kind,
)
from bench.cases.replicated import LONE_SIZE
from bench.lineup import Lineup, Load, Options, lineup, work_directory
from bench.report import Check, Column, Report, merge_rounds
from bench.servers import PARTITIONS_MAX, Topics
from tidelog.cli.plan import calibrating
from tidelog.lab.local.cluster import running_cluster
from tidelog.planner.costs import Figures, Predicted, predict
from tidelog.planner.promises import Terms

BROKERS = 3
NEVER = 2**62
KINDS = (ISR_THREE, DOUBLE, ASYNC, QUORUM_UNSYNCED, QUORUM, SYNCED_THREE)
COLUMNS = (
    Column("predicted_p50_ms", "p50 ms, predicted", ",.2f"),
    Column("p50_ms", "measured", ",.2f"),
    Column("p50_ratio", "ratio", ".2f"),
    Column("predicted_p99_ms", "p99 ms, predicted", ",.2f"),
    Column("p99_ms", "measured", ",.2f"),
    Column("predicted_mb_per_s", "MB/s, predicted", ",.0f"),
    Column("mb_per_s", "measured", ",.0f"),
    Column("mb_ratio", "ratio", ".2f"),
)
WITHIN = 1.3


def run(options: Options) -> list[Report]:
    """Calibration and measurements take turns, so that a slow minute of the machine hits both."""
    options.servers = ("tidelog",)
    figures: list[Figures] = []
    seen: dict[str, list[dict[str, float | None]]] = {kind.name: [] for kind in KINDS}
    with (
        work_directory() as directory,
        running_cluster(directory, BROKERS) as cluster,
        lineup(options, BROKERS) as running,
    ):
        running.warm_up(
            Load("produce", LONE_SIZE, PARTITIONS_MAX, "all"), Load("latency", LONE_SIZE, acks="all")
        )
        calibrating.warm_up(cluster)
        for number in range(options.rounds):
            with options.console.status(f"round {number + 1} of {options.rounds}"):
                figures.append(calibrating.measure_round(cluster, number))
                for kind in KINDS:
                    seen[kind.name].append(_measured(running, kind, number))
        notes = running.notes()
    return [_report(figures, seen, notes)]


def _report(
    figures: list[Figures], seen: dict[str, list[dict[str, float | None]]], notes: list[str]
) -> Report:
    report = Report("latency and throughput: predicted and measured", COLUMNS, ("settings",))
    cores = os.cpu_count() or 1
    for kind in KINDS:
        said = predict(terms_of(kind), figures, BROKERS, cores)
        report.rows.append({"settings": kind.name} | _compared(said, merge_rounds(seen[kind.name])))
    report.notes = notes
    for key, what in (("p50_ratio", "p50"), ("mb_ratio", "MB/s")):
        off = [max(row[key], 1 / row[key]) for row in report.rows if row[key]]
        report.checks.append(Check(f"{what}: the worst ratio, either way", max(off), WITHIN, False))
    return report


def _compared(said: Predicted, seen: dict[str, float | None]) -> dict[str, float | None]:
    p50, rate = seen["p50_ms"], seen["mb_per_s"]
    return {
        "predicted_p50_ms": said.p50_ms.middle,
        "p50_ms": p50,
        "p50_ratio": said.p50_ms.middle / p50 if p50 else None,
        "predicted_p99_ms": said.p99_ms.middle,
        "p99_ms": seen["p99_ms"],
        "predicted_mb_per_s": said.mb_per_s.middle,
        "mb_per_s": rate,
        "mb_ratio": said.mb_per_s.middle / rate if rate else None,
    }


def _measured(running: Lineup, kind: Kind, number: int) -> dict[str, float | None]:
    [server] = running.servers
    topics = Topics(server, kind.replicas)
    found: dict[str, float | None] = {}
    for load, partitions in (("latency", 1), ("produce", PARTITIONS_MAX)):
        topic = f"plan-{load}-{number}-{KINDS.index(kind)}"
        topics.create(topic, partitions, kind.settings)
        try:
            outcome = running.measure(
                server, load, topic, value_size=LONE_SIZE, partitions=partitions, acks=kind.acks
            )
        finally:
            topics.delete(topic)
        figures = outcome.throughput(LONE_SIZE)
        wanted = ("p50_ms", "p99_ms") if load == "latency" else ("mb_per_s",)
        found |= {key: figures[key] for key in wanted}
    return found


def terms_of(kind: Kind) -> Terms:
    settings = kind.settings
    mode = settings["replication.mode"]
    flush = settings.get("flush.messages", "1" if mode == "quorum" else str(NEVER))
    minimum = int(settings.get("min.insync.replicas", "1"))
    return Terms(mode, kind.replicas, min_in_sync=minimum, synced=flush == "1", acks=kind.acks)
