"""One broker killed with kill -9 and started again, under load on a topic of every mode at once.

Three brokers; each topic has a partition led by each of them and gets a write to every partition every 5 ms,
acks=all, with librdkafka's defaults. Three phases of equal length: undisturbed, without the broker, and with
it again. The same fault strikes all modes in the same moment, so what differs is the mode.

With ``--faults N`` a series of many kinds of faults instead: see :mod:`bench.cases.fault_series`.

Shown is what the writers saw. ``--history DIR`` keeps every event and reads all records back, and ``tidelog
pipeline indicators DIR`` tells what became of them.
"""

import signal
import time
from contextlib import ExitStack
from typing import Any

from bench.cases import fault_series
from bench.cases.cluster_scale import BROKERS
from bench.cases.kinds import ASYNC, DOUBLE, ISR_THREE, QUORUM, Kind
from bench.cluster import ClusterServer, tidelog_cluster
from bench.lineup import Options, work_directory
from bench.load.steady import SteadyLoad, recording
from bench.report import Column, Report
from bench.servers import Topics
from tidelog.lab.history import HistoryWriter

RUN = "kill -9 of a leader"
TOPICS: dict[str, Kind] = {"isr": ISR_THREE, "async": ASYNC, "double": DOUBLE, "quorum": QUORUM}
MODES = {
    "isr": "isr",
    "async": "primary-backup, 1 copy",
    "double": "primary-backup, 2 copies",
    "quorum": "quorum",
}
RETURN_SECONDS = 120.0
COLUMNS = (
    Column("acknowledged", "acknowledged", ",.0f"),
    Column("failed", "failed", ",.0f"),
    Column("retries", "requests sent again", ",.0f"),
    Column("gap_ms", "longest time without an acknowledgement ms", ",.0f"),
)


def run(options: Options) -> list[Report]:
    if options.faults:
        return fault_series.run(options)
    report = Report("one broker killed and started again, by mode", COLUMNS, ("mode",))
    with work_directory() as directory, ExitStack() as stack:
        cluster = tidelog_cluster(directory / "tidelog", BROKERS)
        stack.callback(cluster.stop)
        with options.console.status("starting"):
            cluster.start()
            for topic, kind in TOPICS.items():
                Topics(cluster, kind.replicas).create(topic, BROKERS, kind.settings)
        report.rows = _all_at_once(cluster, options)
    if options.history is not None:
        report.notes = [
            f"To see what became of every record: tidelog pipeline indicators {options.history} --to report"
        ]
    return [report]


def _all_at_once(cluster: ClusterServer, options: Options) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        histories = {
            topic: stack.enter_context(recording(options.history, RUN, mode)) for topic, mode in MODES.items()
        }
        loads = {
            topic: SteadyLoad(cluster.bootstrap, topic, BROKERS, history=histories[topic]) for topic in TOPICS
        }
        struck = _under_load(cluster, loads, [one for one in histories.values() if one is not None], options)
        if options.history is not None:
            with options.console.status("reading everything back"):
                for load in loads.values():
                    load.read_back()
    return [
        {
            "mode": MODES[topic],
            "acknowledged": load.acknowledged,
            "failed": len(load.failed),
            "retries": load.retries,
            "gap_ms": load.longest_gap_s(struck) * 1000,
        }
        for topic, load in loads.items()
    ]


def _under_load(
    cluster: ClusterServer, loads: dict[str, SteadyLoad], histories: list[HistoryWriter], options: Options
) -> float:
    """The three phases; when the fault struck, by the steady clock."""
    with ExitStack() as stack:
        for load in loads.values():
            load.start()
            stack.callback(load.stop)
        with options.console.status("undisturbed"):
            time.sleep(options.seconds)
            victim = _victim(cluster)
        with options.console.status(f"broker {victim} is down"):
            struck = time.monotonic()
            for history in histories:
                history.fault(f"kill -9 of broker {victim}")
            cluster.signal(victim, signal.SIGKILL)
            cluster.await_end(victim)
            time.sleep(options.seconds)
        with options.console.status(f"broker {victim} is back"):
            for history in histories:
                history.healed(f"broker {victim} started again")
            cluster.launch_one(victim)
            for topic, load in loads.items():
                cluster.wait_in_sync(topic)
                load.wait_for_writes(time.monotonic(), RETURN_SECONDS)
            time.sleep(options.seconds)
    return struck


def _victim(cluster: ClusterServer) -> int:
    """The broker that leads most, and not the controller where another leads as much."""
    leaders = [part.leader for topic in TOPICS for part in cluster.partitions(topic)]
    active = cluster.controller()
    return max(cluster.members, key=lambda node: (leaders.count(node), node != active))
