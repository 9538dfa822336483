"""The topics of the drill: one of each replication mode, deleted and created again under the same name.

Owns names and ids. A topic is closed while it is exchanged: its producers finish what they have begun, and
begin again with the new topic.
"""

import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.cases.kinds import DOUBLE, ISR_THREE, QUORUM, Kind
from bench.process import BenchError, wait_until
from tidelog.testing import Cluster

PARTITIONS = 3
KINDS: dict[str, Kind] = {"isr": ISR_THREE, "backup": DOUBLE, "quorum": QUORUM}
WITHIN_S = 180.0
ANSWER_S = 10.0


class Topic:
    """Open for writes, or waiting for them to end."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.id = ""
        self._state = threading.Condition()
        self._is_open = True
        self._writers = 0

    @contextmanager
    def writing(self, ended: threading.Event) -> Iterator[bool]:
        """While this lasts, the topic stays. False: the drill ended before it was open."""
        with self._state:
            self._state.wait_for(lambda: self._is_open or ended.is_set())
            if ended.is_set():
                yield False
                return
            self._writers += 1
        try:
            yield True
        finally:
            with self._state:
                self._writers -= 1
                self._state.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        with self._state:
            self._is_open = False
            if not self._state.wait_for(lambda: self._writers == 0, WITHIN_S):
                raise BenchError(f"the writes to {self.name} did not end within {WITHIN_S:g} s")
        try:
            yield
        finally:
            with self._state:
                self._is_open = True
                self._state.notify_all()

    def wake(self) -> None:
        with self._state:
            self._state.notify_all()


class Topics:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient(
            {"bootstrap.servers": cluster.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 2}
        )
        self.all = {name: Topic(name, kind) for name, kind in KINDS.items()}

    def create(self) -> None:
        for topic in self.all.values():
            self._create(topic)

    def create_again(self, name: str, apart_s: float) -> str:
        """Returns the id of the topic that was deleted."""
        topic = self.all[name]
        with topic.closed():
            before, topic.id = topic.id, ""
            wait_until(partial(self._is_deleted, name), WITHIN_S, f"the deletion of {name}", pause=0.2)
            time.sleep(apart_s)
            self._create(topic)
        return before

    def stable_ends(self) -> dict[tuple[str, int], int]:
        """By topic id and partition: what a committed read that begins now must see. Empty if the cluster
        does not answer at the moment, or a topic is being exchanged.
        """
        ids = {name: topic.id for name, topic in self.all.items()}
        spec: Any = OffsetSpec  # without types
        wanted = {
            TopicPartition(name, partition): spec.latest()
            for name, topic_id in ids.items()
            if topic_id
            for partition in range(PARTITIONS)
        }
        if not wanted:
            return {}
        futures = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_S
        )
        try:
            found = {
                (ids[one.topic], one.partition): future.result(ANSWER_S).offset
                for one, future in futures.items()
            }
        except (KafkaException, TimeoutError):
            return {}
        return found if ids == {name: topic.id for name, topic in self.all.items()} else {}

    def _create(self, topic: Topic) -> None:
        wait_until(partial(self._is_created, topic), WITHIN_S, f"the creation of {topic.name}", pause=0.2)
        self._cluster.await_in_sync(topic.name, timeout_s=WITHIN_S)
        wait_until(partial(self._is_known, topic), WITHIN_S, f"the id of {topic.name}", pause=0.2)

    def _is_created(self, topic: Topic) -> bool:
        """Asked again where a controller that is replaced cannot say whether the topic was made."""
        new = NewTopic(topic.name, PARTITIONS, topic.kind.replicas, config=topic.kind.settings)
        return _done(self._admin.create_topics([new])[topic.name], "TOPIC_ALREADY_EXISTS")

    def _is_deleted(self, name: str) -> bool:
        return _done(self._admin.delete_topics([name])[name], "UNKNOWN_TOPIC_OR_PART")

    def _is_known(self, topic: Topic) -> bool:
        future = self._admin.describe_topics(TopicCollection([topic.name]), request_timeout=ANSWER_S)
        try:
            topic.id = _text(future[topic.name].result(ANSWER_S).topic_id)
        except (KafkaException, TimeoutError):
            return False
        return True


def _done(future: Any, already: str) -> bool:
    try:
        future.result(ANSWER_S)
    except KafkaException as error:
        return bool(error.args[0].name() == already)
    except TimeoutError:
        return False
    return True


def _text(topic_id: Any) -> str:
    """As Kafka's tools write it."""
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    raw = b"".join((half % 2**64).to_bytes(8, "big") for half in halves)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
