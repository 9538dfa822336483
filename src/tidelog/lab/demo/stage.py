"""The brokers, the load and the faults of a demo.

Owns the cluster, one load and one reader for each topic, and what is broken now. What is shown is a
:class:`Snapshot`; who shows it is not known here.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.client.cluster_view import PartitionView, view_cluster
from tidelog.lab.account import Verdict
from tidelog.lab.demo.live import LiveAccount, LiveHistory, LiveReader
from tidelog.lab.demo.script import LEADER
from tidelog.lab.demo.sentences import RETURNING, UP, Situation, sentence
from tidelog.lab.demo.topics import BROKERS, TOPICS, DemoTopic
from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.cluster import LabCluster
from tidelog.lab.faults.inject import FaultError, Injected, Parties, inject
from tidelog.lab.faults.needs import RELAY, Needs
from tidelog.lab.load import SteadyLoad

PAUSE_S = 0.01  # between two writes
VIEW_S = 0.3
STEADY_TIMEOUT_S = 60.0
# What no broker can shorten: by default librdkafka waits up to 60 s for one that is frozen.
CLIENT = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200, "log_level": 2}
STATES = {"kill": "killed", "freeze": "frozen", "cut": "cut off"}
_UNKNOWN = PartitionView(-1, -1, (), ())


class Line(NamedTuple):
    """One topic."""

    title: str
    leader: int
    is_stand_in: bool  # a backup that serves reads only
    acknowledged: int
    per_s: float
    lost: int
    duplicated: int
    stalled_s: float  # now
    longest_s: float  # since the start
    sentence: str


class Snapshot(NamedTuple):
    brokers: dict[int, str]
    lines: list[Line]
    seconds: float  # since the load was steady


class _Show:
    """One topic: its load, its reader, and its figures."""

    def __init__(self, topic: DemoTopic, bootstrap: str, directory: Path) -> None:
        self.topic = topic
        self.account = LiveAccount()
        self.history = LiveHistory(directory / f"{topic.name}.jsonl", "demo", topic.title, self.account)
        settings = CLIENT | {"enable.idempotence": True}
        self.load = SteadyLoad(
            bootstrap, topic.name, 1, settings, history=self.history, accounts=True, pause_s=PAUSE_S
        )
        self.reader = LiveReader(CLIENT | {"bootstrap.servers": bootstrap}, topic.name, self.account)
        self._rates: list[tuple[float, int]] = []

    def per_s(self) -> float:
        """Over the last second."""
        now = time.monotonic()
        self._rates = [(at, count) for at, count in self._rates if at > now - 1.0]
        self._rates.append((now, self.load.acknowledged))
        (first, before), (last, after) = self._rates[0], self._rates[-1]
        return (after - before) / (last - first) if last - first > 0.2 else 0.0


class Stage:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cluster = LabCluster(directory / "brokers", ClusterSpec(brokers=BROKERS), Needs(network=RELAY))
        self._shows: list[_Show] = []
        self._broken: dict[int, tuple[str, Injected]] = {}
        self._views: dict[str, PartitionView] = {}
        self._stopping = threading.Event()
        self._viewer = threading.Thread(target=self._view_all, name="leaders", daemon=True)
        self._began = 0.0

    def start(self, tell: Callable[[str], None]) -> None:
        tell(f"starting {BROKERS} brokers")
        self._cluster.start()
        tell("creating four topics")
        self._create_topics()
        history = self._directory / "history"
        history.mkdir(exist_ok=True)
        self._shows = [_Show(topic, self._cluster.client_bootstrap, history) for topic in TOPICS]
        tell("waiting for acknowledged writes")
        for show in self._shows:
            show.load.start()
            show.reader.start()
        self._viewer.start()
        deadline = time.monotonic() + STEADY_TIMEOUT_S
        while not all(show.load.acknowledged for show in self._shows) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def act(self, action: str, who: str) -> str:
        """Do it; what was done, in words."""
        if action == "heal":
            return self._heal([int(who)] if who.isdigit() else list(self._broken))
        leader = self._views.get(TOPICS[0].name, _UNKNOWN).leader
        number = leader if who == LEADER else int(who)
        if number not in self._cluster.brokers:
            return f"There is no {LEADER} now."
        if number in self._broken:
            return f"Broker {number} is {self._broken[number][0]} already; heal it first."
        try:
            # Recorded first: acknowledgements after this moment belong to the fault.
            self._tell("fault", f"{action} of broker {number}")
            injected = inject(self._cluster, action, Parties((number,)))
        except FaultError as error:
            return str(error)
        self._broken[number] = (STATES[action], injected)
        return f"{injected.name}"

    def snapshot(self) -> Snapshot:
        brokers = {number: self._state(number) for number in self._cluster.brokers}
        return Snapshot(brokers, [self._line(show, brokers) for show in self._shows], self.seconds)

    def finish(self) -> dict[str, Verdict]:
        """Heal everything, stop writing, read everything back: what became of every record, by topic."""
        self._heal(list(self._broken))
        with contextlib.suppress(Exception):  # the verdict says what is missing
            self._cluster.await_ready(STEADY_TIMEOUT_S)
        found = {}
        for show in self._shows:
            show.load.stop()
            show.reader.stop()
            found[show.topic.title] = show.load.verdict()
            show.history.close()
        return found

    def close(self) -> None:
        self._stopping.set()
        self._cluster.close()

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._cluster.client_bootstrap, "log_level": 2})
        new = [
            NewTopic(topic.name, 1, replica_assignment=[list(topic.replicas)], config=topic.settings)
            for topic in TOPICS
        ]
        for created in admin.create_topics(new).values():
            created.result(STEADY_TIMEOUT_S)
        self._cluster.cluster.await_in_sync(*(topic.name for topic in TOPICS))

    def _heal(self, numbers: list[int]) -> str:
        healed = []
        for number in numbers:
            if number in self._broken:
                state, injected = self._broken.pop(number)
                self._tell("healed", f"broker {number}, {state}")
                injected.heal()
                healed.append(str(number))
        if not healed:
            return "Nothing is broken."
        return f"healed: broker{'s' if len(healed) > 1 else ''} {', '.join(sorted(healed))}"

    def _tell(self, kind: str, name: str) -> None:
        for show in self._shows:
            (show.history.fault if kind == "fault" else show.history.healed)(name)

    def _state(self, number: int) -> str:
        if number in self._broken:
            return self._broken[number][0]
        known = [view for view in self._views.values() if number in view.replicas]
        is_back = not known or any(number in view.in_sync for view in known)
        return UP if is_back else RETURNING

    def _line(self, show: _Show, brokers: dict[int, str]) -> Line:
        view = self._views.get(show.topic.name, _UNKNOWN)
        leader = -1 if brokers.get(view.leader, UP) not in (UP, RETURNING) else view.leader
        stalled = show.load.silent_s
        now = Situation(leader, view.in_sync, stalled, brokers)
        return Line(
            show.topic.title,
            leader,
            show.topic.mode == "primary-backup" and leader not in (-1, show.topic.replicas[0]),
            show.load.acknowledged,
            show.per_s(),
            show.account.missing,
            show.account.duplicated,
            stalled,
            max(show.load.longest_gap_s(self._began), stalled),
            sentence(show.topic, now),
        )

    def _view_all(self) -> None:
        """The newest that any reachable broker knows, a few times a second."""
        names = [topic.name for topic in TOPICS]
        while not self._stopping.is_set():
            newest: dict[str, PartitionView] = {}
            for broker in self._cluster.cluster:
                if broker.node_id in self._broken:
                    continue
                with contextlib.suppress(OSError):
                    found = view_cluster(broker.host, broker.port, *names, timeout_s=VIEW_S).topics
                    for name, (first, *_) in found.items():
                        if first.leader_epoch >= newest.get(name, _UNKNOWN).leader_epoch:
                            newest[name] = first
            self._views |= newest
            self._stopping.wait(0.2)
