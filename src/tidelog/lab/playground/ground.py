"""The playground: commands in, snapshots out.

Owns the loads, the faults, and a thread that looks at the topics' leaders. What sends commands and shows
snapshots is not known here.
"""

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.client.cluster_view import PartitionView, view_cluster
from tidelog.client.librdkafka import librdkafka_settings
from tidelog.lab.demo.sentences import ISOLATED, RETURNING, UP
from tidelog.lab.local.tls import client_security
from tidelog.lab.playground.brokers import LocalBrokers
from tidelog.lab.playground.course import SLICE_S
from tidelog.lab.playground.faults import CUT, DOWN, FROZEN, KILLED, RESTARTING, Faults, now_ms
from tidelog.lab.playground.load import TopicLoad
from tidelog.lab.playground.topics import BROKERS_MIN, topics_on

VIEW_S = 0.3
CREATE_S = 15.0
END_S = 2.0
SENTENCE_STATES = {KILLED: "killed", FROZEN: "frozen", CUT: ISOLATED, RESTARTING: RETURNING, DOWN: "killed"}


class Refused(Exception):
    """What was asked for cannot be done; one sentence."""


class Ground:
    def __init__(self, directory: Path, addresses: Mapping[int, tuple[str, int]]) -> None:
        """``addresses``: of the brokers by number."""
        self._addresses = dict(addresses)
        self._security = client_security(directory)
        self._client = librdkafka_settings(self._security)
        self._cluster = LocalBrokers(directory)
        self._faults = Faults(self._cluster)
        self._topics = topics_on(self._cluster.brokers)
        self._loads = {key: TopicLoad(key, topic) for key, topic in self._topics.items()}
        self._creating = threading.Lock()
        self._stopping = threading.Event()
        self._viewer = threading.Thread(target=self._view_all, name="leaders", daemon=True)
        self._said = 0

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    def begin(self) -> None:
        self._viewer.start()

    def act(self, command: Mapping[str, Any]) -> str:
        """What was done, in a sentence; Refused or FaultError: nothing."""
        action = command.get("action")
        actions: dict[str, Callable[[int], str]] = {
            "kill": self._faults.kill,
            "freeze": self._faults.freeze,
            "thaw": self._faults.thaw,
            "cut": self._faults.cut,
            "heal": self._faults.heal,
            "restart": self._faults.restart,
        }
        if action in actions:
            broker = command.get("broker")
            if type(broker) is not int:  # not true and false either
                raise Refused("Brokers are given by number.")
            return actions[action](broker)
        if action in ("start", "stop"):
            return (
                self._start(self._chosen(command)) if action == "start" else self._stop(self._chosen(command))
            )
        raise Refused(f"There is no action {action!r}.")

    def snapshot(self) -> dict[str, Any]:
        """Call twice a second: it ends a slice of each course."""
        moment = now_ms()
        states = self._faults.states()
        for_words = {broker: self._state_word(broker, state) for broker, state in states.items()}
        points = {}
        for key, load in self._loads.items():
            before = load.course.slices[-1].end_ms if load.course.slices else 0
            load.tick(moment)
            if load.course.slices and load.course.slices[-1].end_ms != before:
                points[key] = load.course.slices[-1]
        return {
            "at": moment,
            "brokers": {str(broker): state for broker, state in states.items()},
            "bands": self._faults.shown(),
            "loads": [load.row(for_words) for load in self._loads.values()],
            "points": points,
            "slice_s": SLICE_S,
            "why_not": "" if self._loads else f"Loads need {BROKERS_MIN} brokers: start with --brokers 3.",
            "why_no_cut": self._cluster.why_no_cut(),
        }

    def close(self) -> None:
        """No load goes on, and no broker stays frozen or cut off. Brokers that were killed stay down."""
        self._stopping.set()
        for load in self._loads.values():
            load.stop()
        self._faults.heal_all()
        for load in self._loads.values():
            load.await_end(END_S)

    # --- loads --------------------------------------------------------------------------------------------

    def _chosen(self, command: Mapping[str, Any]) -> list[TopicLoad]:
        key = command.get("load", "all")
        if not self._loads:
            raise Refused(f"Loads need {BROKERS_MIN} brokers.")
        if key == "all":
            return list(self._loads.values())
        if key not in self._loads:
            raise Refused(f"There is no load {key!r}; there are {', '.join(self._loads)}.")
        return [self._loads[key]]

    def _start(self, loads: list[TopicLoad]) -> str:
        with self._creating:
            idle = [load for load in loads if not load.is_at_work]
            if not idle:
                raise Refused("It runs already." if len(loads) == 1 else "All loads run already.")
            self._create(idle)
            for load in idle:
                load.start(self.bootstrap, self._client, f"playground-{secrets.token_hex(4)}")
        return f"Started: {', '.join(load.topic.title for load in idle)}."

    def _stop(self, loads: list[TopicLoad]) -> str:
        busy = [load for load in loads if load.is_at_work]
        if not busy:
            raise Refused("No load runs.")
        for load in busy:
            load.stop()
        return f"Stopping: {', '.join(load.topic.title for load in busy)}. Every record is read back now."

    def _create(self, loads: list[TopicLoad]) -> None:
        """Those of their topics that are not there."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 2}
        admin = AdminClient(settings | self._client)
        new = [
            NewTopic(
                load.topic.name, 1, replica_assignment=[list(load.topic.replicas)], config=load.topic.settings
            )
            for load in loads
        ]
        for name, created in admin.create_topics(new, request_timeout=CREATE_S).items():
            try:
                created.result(CREATE_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise Refused(f"The topic {name} cannot be created: {error.args[0].str()}.") from None

    # --- what the sentences need --------------------------------------------------------------------------

    def _state_word(self, broker: int, state: str) -> str:
        if state != UP:
            return SENTENCE_STATES[state]
        views = [load.view for load in self._loads.values() if broker in load.view.replicas]
        is_back = not views or any(broker in view.in_sync for view in views)
        return UP if is_back else RETURNING

    def _view(self, host: str, port: int, *names: str) -> dict[str, list[PartitionView]]:
        return view_cluster(host, port, *names, timeout_s=VIEW_S, security=self._security).topics

    def _view_all(self) -> None:
        """The newest that any reachable broker knows."""
        while not self._stopping.wait(0.25):
            busy = [load for load in self._loads.values() if load.is_at_work]
            if not busy:
                continue
            newest: dict[str, PartitionView] = {}
            states = self._faults.states()
            for broker, (host, port) in self._addresses.items():
                if states.get(broker) != UP:
                    continue
                with contextlib.suppress(OSError):
                    names = [load.topic.name for load in busy]
                    for name, found in self._view(host, port, *names).items():
                        known = newest.get(name)
                        if known is None or found[0].leader_epoch >= known.leader_epoch:
                            newest[name] = found[0]
            for load in busy:
                load.view = newest.get(load.topic.name, load.view)
