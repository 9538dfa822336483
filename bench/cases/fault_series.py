"""One fault after the other on three brokers, under load on a topic of every mode and on one that changes its
mode meanwhile: nothing acknowledged is lost, nothing is there twice, and the order is kept.

Each topic gets numbered writes from an idempotent producer with acks=all. A fault strikes one broker, or two
at once, for up to some seconds: killed, two killed, frozen, stopped cleanly, or cut off from everybody (only
where this machine lets us make network namespaces). Before every third fault the changing topic is told to
take another mode, so that the change falls into it. Faults, victims and times are drawn from ``--seed``.

Reported: the time without an acknowledged write by fault and mode, the time from the end of a fault until all
replicas of all topics are in sync again, and in the end what became of every record. In a primary-backup
topic nobody replaces the primary: there the time without writes is as long as the fault.

If the series cannot go on, logs and data of the brokers stay, with what each broker said about the topics.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.cases.kinds import ASYNC, DOUBLE, ISR_THREE, QUORUM, Kind
from bench.distribution import COLUMNS as SPREAD
from bench.distribution import spread
from bench.lineup import Options, work_directory
from bench.load.steady import SteadyLoad, recording
from bench.process import BenchError, end_in_order, wait_until
from bench.report import Check, Column, Report
from tidelog.lab.history import HistoryWriter
from tidelog.testing import Broker, BrokerError, Cluster, Network, NetworkUnavailable, running_cluster

BROKERS = 3
PARTITIONS = 3
RUN = "series of faults"
CHANGING = "changing"
TOPICS: dict[str, Kind] = {
    "isr": ISR_THREE,
    "async": ASYNC,
    "double": DOUBLE,
    "quorum": QUORUM,
    # Without min.insync.replicas, which has no meaning in every mode.
    CHANGING: Kind("changes its mode", 3, "all", {"replication.mode": "isr"}),
}
MODES = cycle(("quorum", "primary-backup", "isr", "primary-backup", "quorum", "isr"))  # every pair, both ways
CHANGE_EVERY = 3  # faults
WITHIN_SECONDS = 120.0
PAUSE_S = 0.01  # between two writes to one partition
LONGEST_S = 4.0  # of a fault; a session lasts less
# What no server can shorten is shortened here: by default librdkafka waits 60 s for a broker that is frozen
# or cut off, and up to 10 s before it connects again to one that did not answer.
CLIENT = {"enable.idempotence": True, "socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 500}
GAPS = (Column("runs", "faults", ",.0f"), *SPREAD)
WHOLE = (
    Column("runs", "faults", ",.0f"),
    Column("p50_s", "p50 s", ",.1f"),
    Column("worst_s", "worst s", ",.1f"),
)
RECORDS = (
    Column("acknowledged", "acknowledged", ",.0f"),
    Column("failed", "failed writes", ",.0f"),
    Column("lost", "lost", ",.0f"),
    Column("doubled", "twice", ",.0f"),
    Column("disordered", "out of order", ",.0f"),
    Column("misplaced", "at another offset", ",.0f"),
)


class Fault(NamedTuple):
    name: str
    victims: int
    strike: Callable[[Cluster, Broker], None]
    heal: Callable[[Cluster, Broker], None]
    needs_network: bool = False


def _unplug(cluster: Cluster, broker: Broker) -> None:
    if cluster.network is not None:
        cluster.network.unplug(broker.node_id)


def _plug(cluster: Cluster, broker: Broker) -> None:
    if cluster.network is not None:
        cluster.network.plug(broker.node_id)


FAULTS = (
    Fault("killed", 1, lambda _, broker: broker.kill(), lambda _, broker: broker.launch()),
    Fault("two killed at once", 2, lambda _, broker: broker.kill(), lambda _, broker: broker.launch()),
    Fault("frozen", 1, lambda _, broker: broker.pause(), lambda _, broker: broker.resume()),
    Fault("stopped cleanly", 1, lambda _, broker: _stop(broker), lambda _, broker: broker.launch()),
    Fault("cut off", 1, _unplug, _plug, needs_network=True),
)


def _stop(broker: Broker) -> None:
    code = broker.stop()
    if code:
        raise BenchError(f"{broker!r} stopped with exit code {code}")


class Series:
    """The course of one run and what was measured in it."""

    def __init__(
        self,
        cluster: Cluster,
        loads: dict[str, SteadyLoad],
        histories: list[HistoryWriter],
        options: Options,
        journal: Path,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._loads = loads
        self._histories = histories
        self._options = options
        self._chance = random.Random(options.seed)
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 2}
        )
        self._mode = "isr"  # of the changing topic
        self.changes = 0
        self.gaps_ms: dict[tuple[str, str], list[float]] = {}  # by fault and topic
        self.whole_s: dict[str, list[float]] = {}  # by fault

    def run(self, faults: int) -> None:
        kinds = [fault for fault in FAULTS if self._cluster.network is not None or not fault.needs_network]
        for number in range(faults):
            fault = kinds[number % len(kinds)]
            with self._options.console.status(f"{fault.name}, {number + 1} of {faults}"):
                self._one(fault, changes=number % CHANGE_EVERY == CHANGE_EVERY - 1)

    def _one(self, fault: Fault, *, changes: bool) -> None:
        cluster = self._cluster
        victims = self._chance.sample(list(cluster), fault.victims)
        if changes:
            self._change_mode()
        struck = time.monotonic()
        names = " and ".join(str(victim.node_id) for victim in victims)
        self._tell("fault", f"{fault.name}: {names}")
        for victim in victims:
            fault.strike(cluster, victim)
        time.sleep(self._chance.uniform(0.2, LONGEST_S))
        healed = time.monotonic()
        self._tell("healed", f"{fault.name}: {names}")
        for victim in victims:
            fault.heal(cluster, victim)
        self._await_whole(fault.name)
        self.whole_s.setdefault(fault.name, []).append(time.monotonic() - healed)
        for topic, load in self._loads.items():
            load.wait_for_writes(time.monotonic(), WITHIN_SECONDS)
            gap_ms = load.longest_gap_s(struck) * 1000
            self.gaps_ms.setdefault((fault.name, topic), []).append(gap_ms)
        self._note(f"writes again, {time.monotonic() - healed:.1f} s after the end of the fault")

    def _note(self, event: str) -> None:
        """With the time in the format of the brokers' logs."""
        now = datetime.now(UTC)
        with self._journal.open("a") as file:
            file.write(f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z {event}\n")

    def _tell(self, kind: str, name: str) -> None:
        self._note(f"{kind}: {name}")
        for history in self._histories:
            (history.fault if kind == "fault" else history.healed)(name)

    def _await_whole(self, name: str) -> None:
        """Every broker serves, every replica is in sync, and a change of mode is done."""
        cluster = self._cluster

        def is_whole() -> bool:
            for broker in cluster:
                broker.check_alive()
            try:
                view = cluster.view(*TOPICS)
            except OSError:
                return False
            if len(view.brokers) < BROKERS or set(TOPICS) != set(view.topics):
                return False
            parts = [part for found in view.topics.values() for part in found]
            return all(part.leader >= 0 and len(part.in_sync) == len(part.replicas) for part in parts)

        wait_until(is_whole, WITHIN_SECONDS, f"all replicas being in sync again after: {name}", pause=0.05)
        wait_until(self._is_changed, WITHIN_SECONDS, f"the change of mode to {self._mode}", pause=0.05)

    # --- the changing topic ---------------------------------------------------------------------------------

    def _change_mode(self) -> None:
        self._mode = next(MODES)
        self.changes += 1
        self._note(f"change of mode to {self._mode}")
        entry = ConfigEntry("replication.mode", self._mode, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, CHANGING, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([topic]).values():
            future.result(WITHIN_SECONDS)

    def _is_changed(self) -> bool:
        (future,) = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, CHANGING)]).values()
        try:
            settings = {name: entry.value for name, entry in future.result(WITHIN_SECONDS).items()}
        except KafkaException:
            return False
        return settings["replication.mode"] == self._mode and not json.loads(
            settings.get("replication.mode.change") or "[]"
        )


def run(options: Options) -> list[Report]:
    end_in_order()
    with ExitStack() as stack:
        directory = stack.enter_context(work_directory(kept_after=(BenchError, BrokerError)))
        network = stack.enter_context(_network())
        hosts = network if isinstance(network, Network) else None
        cluster = stack.enter_context(running_cluster(directory, BROKERS, network=hosts))
        _create_topics(cluster)
        histories = {
            topic: stack.enter_context(recording(options.history, RUN, _label(topic))) for topic in TOPICS
        }
        loads = {
            topic: SteadyLoad(
                cluster.bootstrap, topic, PARTITIONS, CLIENT, history=histories[topic], accounts=True,
                pause_s=PAUSE_S,
            )
            for topic in TOPICS
        }  # fmt: skip
        kept = [history for history in histories.values() if history is not None]
        series = Series(cluster, loads, kept, options, directory / "faults.log")
        with _running(loads), _views_kept(cluster, directory):
            series.run(options.faults or 0)
        with options.console.status("reading everything back"):
            reports = _reports(series, loads)
    if hosts is None:
        reports[0].notes.append(f"cut off: left out, because {network}")
    reports[-1].notes.append(
        f"--faults {options.faults} --seed {options.seed}: {series.changes} mode changes"
    )
    return reports


@contextmanager
def _network() -> Iterator[Network | str]:
    """Hosts of their own, or why there are none."""
    network = Network(BROKERS)
    try:
        network.__enter__()
    except NetworkUnavailable as error:
        yield str(error)
        return
    try:
        yield network
    finally:
        network.close()


@contextmanager
def _running(loads: dict[str, SteadyLoad]) -> Iterator[None]:
    with ExitStack() as stack:
        for load in loads.values():
            load.start()
            stack.callback(load.stop)
        yield


@contextmanager
def _views_kept(cluster: Cluster, directory: Path) -> Iterator[None]:
    """If the series fails, what each broker says about the topics at that moment is kept beside its log."""
    try:
        yield
    except (BenchError, BrokerError):
        for broker in cluster.running:
            (directory / f"view-of-broker-{broker.node_id}.txt").write_text(_view_of(cluster, broker))
        raise


def _view_of(cluster: Cluster, broker: Broker) -> str:
    try:
        view = cluster.view(*TOPICS, of=broker)
    except OSError as error:
        return f"no response: {error}\n"
    lines = [f"controller {view.controller}, brokers {sorted(view.brokers)}"]
    for topic, parts in view.topics.items():
        lines += [f"{topic}-{number}: {part}" for number, part in enumerate(parts)]
    return "\n".join(lines) + "\n"


def _create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    for topic, kind in TOPICS.items():
        new = NewTopic(topic, PARTITIONS, kind.replicas, config=kind.settings)
        admin.create_topics([new])[topic].result(WITHIN_SECONDS)


def _label(topic: str) -> str:
    return TOPICS[topic].name


def _reports(series: Series, loads: dict[str, SteadyLoad]) -> list[Report]:
    gaps = Report("time without an acknowledged write, by fault and mode", GAPS, ("fault", "mode"))
    gaps.rows = [
        {"fault": fault, "mode": _label(topic), "runs": len(times)} | spread(times)
        for (fault, topic), times in sorted(series.gaps_ms.items(), key=_place)
    ]
    whole = Report("from the end of a fault until all replicas are in sync", WHOLE, ("fault",))
    for fault, times in series.whole_s.items():
        figures = spread([seconds * 1000 for seconds in times])
        row = {"p50_s": figures["p50_ms"] / 1000, "worst_s": figures["worst_ms"] / 1000}
        whole.rows.append({"fault": fault, "runs": len(times)} | row)
    return [gaps, whole, _records(loads)]


def _place(item: tuple[tuple[str, str], Any]) -> tuple[int, int]:
    (fault, topic), _ = item
    return [each.name for each in FAULTS].index(fault), list(TOPICS).index(topic)


def _records(loads: dict[str, SteadyLoad]) -> Report:
    report = Report("what became of every record", RECORDS, ("mode",))
    for topic, load in loads.items():
        verdict = load.verdict()
        figures = verdict._asdict()
        report.notes += figures.pop("examples")
        report.rows.append({"mode": _label(topic), "failed": len(load.failed)} | figures)
    for column in RECORDS[2:]:
        total = float(sum(row[column.key] for row in report.rows))
        report.checks.append(Check(f"records {column.heading}", total, 0, at_least=False, unit=""))
    return report
