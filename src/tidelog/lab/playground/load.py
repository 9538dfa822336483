"""One load of the playground: a steady writer, a reader, and what became of every record.

Bounded by its length: a load ends by itself after so many records, so that neither its account nor the topic
grows forever. At the end everything is read back once more.
"""

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from tidelog.client.cluster_view import PartitionView
from tidelog.lab.account import Verdict
from tidelog.lab.demo.live import LiveAccount, LiveReader
from tidelog.lab.demo.sentences import ISOLATED, RETURNING, STALLED_S, Situation, sentence
from tidelog.lab.demo.topics import DemoTopic
from tidelog.lab.load import SteadyLoad
from tidelog.lab.playground.course import Course

PAUSE_S = 0.01  # between two writes
RECORDS_MAX = 360_000  # an hour of writes
# What no broker can shorten: by default librdkafka waits up to 60 s for one that is frozen.
CLIENT = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200, "log_level": 2}
PRODUCER = CLIENT | {"enable.idempotence": True, "linger.ms": 1, "queue.buffering.max.messages": 20_000}

OFF, STARTING, RUNNING, CHECKING, DONE, FAILED = "off", "starting", "running", "checking", "done", "failed"
AT_WORK = (STARTING, RUNNING, CHECKING)


class TopicLoad:
    """Starts and ends in threads of its own: both wait for the cluster."""

    def __init__(self, key: str, topic: DemoTopic) -> None:
        self.key = key
        self.topic = topic
        self.course = Course()
        self.state = OFF
        self.words = ""  # why it ended
        self.view = PartitionView(-1, -1, (), ())
        self._load: SteadyLoad | None = None
        self._reader: LiveReader | None = None
        self._account = LiveAccount()
        self._verdict: Verdict | None = None
        self._began_s = 0.0
        self._longest_s = 0.0
        self._per_s = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_at_work(self) -> bool:
        return self.state in AT_WORK

    def start(self, bootstrap: str, security: Mapping[str, Any], name: str) -> None:
        """``name``: of its producer, another one each time. The topic exists."""
        self.state, self.words = STARTING, ""
        self._account, self._verdict, self._longest_s = LiveAccount(), None, 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(bootstrap, dict(security), name), name=self.key, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; its account follows."""
        self._stopping.set()

    def await_end(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def tick(self, now_ms: int) -> None:
        """Ends a slice of its course, twice a second."""
        load = self._load
        if load is None or self.state not in (RUNNING, CHECKING):
            return
        pending = load.sent - load.acknowledged - len(load.failed)
        stalled_s = load.silent_s
        found = self.course.cut(now_ms, stalled_s if pending > 0 else 0.0)
        if self.state == RUNNING:
            self._longest_s = max(self._longest_s, stalled_s)
        self._per_s = sum(each.acknowledged for each in list(self.course.slices)[-2:])
        if found.acknowledged == 0 and pending <= 0:
            self._per_s = 0.0

    def row(self, states: dict[int, str]) -> dict[str, Any]:
        load, verdict = self._load, self._verdict
        stalled_s = load.silent_s if load is not None and self.state == RUNNING else 0.0
        return {
            "key": self.key,
            "topic": self.topic.name,
            "title": self.topic.title,
            "mode": self.topic.mode,
            "state": self.state,
            "words": self.words,
            "leader": self._shown_leader(states, stalled_s),
            "sentence": self._sentence(states, stalled_s) if self.state == RUNNING else "",
            "sent": load.sent if load is not None else 0,
            "acknowledged": load.acknowledged if load is not None else 0,
            "given_up": len(load.failed) if load is not None else 0,
            "lost": verdict.lost if verdict is not None else self._account.missing,
            "duplicated": verdict.doubled if verdict is not None else self._account.duplicated,
            "disordered": verdict.disordered if verdict is not None else self._account.disordered,
            "per_s": self._per_s if self.state == RUNNING else 0.0,
            "stalled_s": round(stalled_s, 2),
            "longest_s": round(self._longest_s, 2),
            "verdict": None if verdict is None else _said(verdict),
        }

    def _shown_leader(self, states: dict[int, str], stalled_s: float) -> int:
        """The view is that of the brokers that reach each other. A primary that they do not reach goes on."""
        primary = self.topic.replicas[0]
        goes_on = self.topic.mode == "primary-backup" and stalled_s < STALLED_S
        return primary if goes_on and states.get(primary) in (ISOLATED, RETURNING) else self.view.leader

    def _sentence(self, states: dict[int, str], stalled_s: float) -> str:
        leader = self.view.leader if states.get(self.view.leader) == "up" else -1
        return sentence(self.topic, Situation(leader, self.view.in_sync, stalled_s, states))

    # --- the thread ---------------------------------------------------------------------------------------

    def _run(self, bootstrap: str, security: dict[str, Any], name: str) -> None:
        try:
            load, reader = self._begin(bootstrap, security, name)
        except Exception as error:
            self.state, self.words = FAILED, f"The load did not start: {error}."
            return
        try:
            while not self._stopping.wait(0.1):
                if load.sent >= RECORDS_MAX:
                    self.words = "It ended by itself after an hour of writes."
                    break
            self.state = CHECKING
            load.stop()
            reader.stop()
            self._verdict = load.verdict()
            self.state = DONE
        except Exception as error:
            self.state, self.words = FAILED, f"What became of the records is not known: {error}."
            with contextlib.suppress(Exception):
                reader.stop()

    def _begin(self, bootstrap: str, security: dict[str, Any], name: str) -> tuple[SteadyLoad, LiveReader]:
        account = self._account

        def acknowledged(_partition: int, sequence: int, sent_at_s: float, offset: int | None) -> None:
            self.course.acknowledged(time.monotonic() - sent_at_s)
            if offset is not None and offset >= 0:
                account.acknowledged(sequence, offset)

        load = SteadyLoad(
            bootstrap, self.topic.name, 1, PRODUCER | security, name=name, accounts=True, pause_s=PAUSE_S,
            on_acknowledged=acknowledged,
        )  # fmt: skip
        reader = LiveReader(
            CLIENT | security | {"bootstrap.servers": bootstrap}, self.topic.name, account,
            start=load.start_offsets[0], producer=name,
        )  # fmt: skip
        self._load, self._reader, self._began_s = load, reader, time.monotonic()
        load.start()
        reader.start()
        self.state = RUNNING
        return load, reader


def _said(verdict: Verdict) -> dict[str, Any]:
    return {
        "clean": verdict.is_clean,
        "acknowledged": verdict.acknowledged,
        "received": verdict.received,
        "lost": verdict.lost,
        "duplicated": verdict.doubled,
        "disordered": verdict.disordered,
        "misplaced": verdict.misplaced,
        "examples": list(verdict.examples),
    }
