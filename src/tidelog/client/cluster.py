"""A cluster seen by one client: leaders, a connection to each broker, retries.

Owns connections and the last known leaders. Every request has a deadline; until then closed connections, dead
brokers and partitions without a leader are retried, because a failover takes a moment and a failed task costs
minutes.
"""

import socket
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from tidelog.client import messages, messages_by_id
from tidelog.client.apis import Api
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import (
    ClusterUnreachable,
    Refused,
    TopicReplaced,
    UnknownTopic,
    UnlikelyResponse,
    is_retriable,
)
from tidelog.client.messages import Metadata, TopicMetadata, TopicPartition
from tidelog.client.settings import ClientSettings
from tidelog.errors import ErrorCode

_UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
# A new topic may not be known to the broker that is asked; a deleted one stays unknown.
_UNKNOWN_TOPIC_TRIES = 5
# How long to retry what wrong settings explain better than a failure does, and when to say that no
# broker answers yet.
_UNLIKELY_S = 10.0
_SILENT_S = 5.0

T = TypeVar("T")


class Patience:
    """How long to retry; starts again after each success."""

    def __init__(self, total_ms: int, pause_ms: int) -> None:
        self._total_s = total_ms / 1000
        self._pause_s = pause_ms / 1000
        self.renew()

    def renew(self) -> None:
        self._since = time.monotonic()
        self._next_pause_s = min(self._pause_s, 0.02)

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._since

    def pause(self, reason: object, at_most_s: float | None = None) -> None:
        """Wait a little longer than the last time, or raise when the time is used up."""
        total_s = self._total_s if at_most_s is None else min(self._total_s, at_most_s)
        left = total_s - self.waited_s
        if left <= 0:
            raise ClusterUnreachable(f"Nothing worked for {total_s:g} s; the last reason: {reason}.")
        time.sleep(min(self._next_pause_s, left))
        self._next_pause_s = min(self._next_pause_s * 2, self._pause_s)


class Cluster:
    """Not thread-safe, and not picklable: workers create their own from the settings."""

    def __init__(self, settings: ClientSettings, patience_ms: int | None = None) -> None:
        self.settings = settings
        self._patience_ms = settings.request_timeout_ms * 2 if patience_ms is None else patience_ms
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._connections: dict[tuple[str, int], BrokerConnection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def patience(self) -> Patience:
        return Patience(self._patience_ms, self.settings.retry_backoff_ms)

    # -- what is there -------------------------------------------------------------------

    def topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """These topics with their partitions; :class:`UnknownTopic` names those that do not exist."""
        wanted = list(dict.fromkeys(names))
        for attempt in range(_UNKNOWN_TOPIC_TRIES):
            found = self.known_topics(wanted)
            missing = [name for name in wanted if name not in found]
            if not missing:
                return found
            time.sleep(0.05 * (attempt + 1))
        listed = ", ".join(missing)
        raise UnknownTopic(f"There is no topic {listed} in the cluster at {self._where()}.")

    def known_topics(self, names: Collection[str] | None) -> dict[str, TopicMetadata]:
        """Those of the topics that exist; None: all topics."""
        patience = self.patience()
        while True:
            metadata = self._metadata(names, patience)
            found = {name: topic for name, topic in metadata.topics.items() if topic.error != _UNKNOWN_TOPIC}
            unfinished = [name for name, topic in found.items() if is_retriable(topic.error)]
            if not unfinished:
                break
            patience.pause(f"the topic {unfinished[0]} is being made")
        for name, topic in found.items():
            if topic.error and names is not None:
                raise Refused(f"The topic {name} cannot be read", topic.error)
        return {name: topic for name, topic in found.items() if not topic.error}

    def topic_id(self, topic: str) -> str:
        """As last reported; empty: unknown."""
        return self._topic_ids.get(topic, "")

    def check_topic_id(self, topic: str, expected: str) -> None:
        """:class:`TopicReplaced` if the topic was deleted and created again since it had that id.

        An unknown id, there or here, fits any other. A broker may not know yet of the newest topic.
        """
        for attempt in range(_UNKNOWN_TOPIC_TRIES):
            if attempt:
                time.sleep(0.05 * attempt)
                self.known_topics([topic])
            found = self.topic_id(topic)
            if not found or not expected or found == expected:
                return
        raise TopicReplaced(replaced(topic, expected, found))

    # -- where it is ---------------------------------------------------------------------

    def leader(self, topic: str, partition: int, patience: Patience) -> BrokerConnection:
        """A connection to the partition's leader, as soon as there is one."""
        unknown = 0
        while True:
            leader = self._leaders.get((topic, partition))
            if leader is None:
                found = self._metadata([topic], patience).topics.get(topic)
                leader = self._leaders.get((topic, partition), -1)
                if found is None or found.error == _UNKNOWN_TOPIC or partition not in found.partitions:
                    unknown += 1
                    if unknown == _UNKNOWN_TOPIC_TRIES:
                        raise UnknownTopic(f"There is no {topic}-{partition} at {self._where()} any more.")
            address = self._brokers.get(leader)
            if address is None:
                self.forget(topic, partition)
                patience.pause(f"{topic}-{partition} has no leader")
                continue
            try:
                return self.connection(address)
            except OSError as error:
                self.forget(topic, partition)
                patience.pause(
                    f"{address[0]}:{address[1]}, the address that the leader of {topic}-{partition} "
                    f"advertises, does not answer: {error}",
                    _UNLIKELY_S if _is_unlikely(error) else None,
                )

    def broker(self, broker_id: int) -> BrokerConnection | None:
        """A connection to one broker; None if it is unknown or does not respond."""
        address = self._brokers.get(broker_id)
        try:
            return None if address is None else self.connection(address)
        except OSError:
            return None

    def brokers(self) -> dict[int, tuple[str, int]]:
        """The addresses of all live brokers."""
        return dict(self._metadata([], self.patience()).brokers)

    def forget(self, topic: str, partition: int) -> None:
        """Ask again for its leader: the last one did not respond, or is not the leader."""
        self._leaders.pop((topic, partition), None)

    def connection(self, address: tuple[str, int]) -> BrokerConnection:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = BrokerConnection(*address, self.settings)
        return found

    def drop(self, connection: BrokerConnection) -> None:
        """A connection that failed; the next caller gets a new one."""
        connection.close()
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]

    def drop_address(self, address: tuple[str, int]) -> None:
        """The connection to that broker, if there is one, failed."""
        if address in self._connections:
            self.drop(self._connections[address])

    # -- offsets -------------------------------------------------------------------------

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """For each partition the offset of the requested time (or EARLIEST or LATEST)."""
        patience = self.patience()
        found: dict[TopicPartition, int] = {}
        left = dict(wanted)
        while left:
            answered, trouble = self._list_offsets(left, read_committed, patience)
            found |= answered
            left = {partition: at for partition, at in left.items() if partition not in answered}
            if left:
                patience.pause(trouble)
        return found

    def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], read_committed: bool, patience: Patience
    ) -> tuple[dict[TopicPartition, int], str]:
        """The leaders' responses, and the errors of the others."""
        by_leader: dict[BrokerConnection, dict[TopicPartition, int]] = {}
        for (topic, partition), timestamp in wanted.items():
            leader = self.leader(topic, partition, patience)
            by_leader.setdefault(leader, {})[topic, partition] = timestamp
        found: dict[TopicPartition, int] = {}
        trouble = "no answer"
        for leader, part in by_leader.items():
            try:
                body = messages.list_offsets_request(part, read_committed)
                response = leader.call(Api.LIST_OFFSETS, messages.LIST_OFFSETS_VERSION, body)
                responses = messages.list_offsets(response)
            except OSError as error:
                self.drop(leader)
                for topic, partition in part:
                    self.forget(topic, partition)
                trouble = str(error)
                continue
            for (topic, partition), listed in responses.items():
                if not listed.error:
                    found[topic, partition] = listed.offset
                    continue
                self.forget(topic, partition)
                refusal = Refused(f"The offsets of {topic}-{partition} cannot be had", listed.error)
                if not is_retriable(listed.error):
                    raise refusal
                trouble = str(refusal)
        return found, trouble

    # -- metadata ------------------------------------------------------------------------

    def _metadata(self, names: Collection[str] | None, patience: Patience) -> Metadata:
        return self._learn(self._first_response(lambda broker: _described(broker, names), patience))

    def ask(self, api: int, version: int, body: bytes, patience: Patience) -> memoryview:
        """The first response of any broker."""
        return self._first_response(lambda broker: broker.call(api, version, body), patience)

    def _first_response(self, question: Callable[[BrokerConnection], T], patience: Patience) -> T:
        has_warned = False
        while True:
            failures: list[OSError] = []
            for address in self._candidates():
                try:
                    return question(self.connection(address))
                except OSError as error:
                    failures.append(error)
                    self.drop_address(address)
            reason = f"no broker of {self._where()} answers: {failures[-1]}"
            if not has_warned and patience.waited_s > _SILENT_S:
                warnings.warn(f"Still waiting: {reason}.", stacklevel=2)
                has_warned = True
            patience.pause(reason, _UNLIKELY_S if all(map(_is_unlikely, failures)) else None)

    def _candidates(self) -> list[tuple[str, int]]:
        """Brokers to ask: those with a connection first, the bootstrap servers always."""
        known = [*self._connections, *self._brokers.values(), *self.settings.bootstrap]
        return list(dict.fromkeys(known))

    def _learn(self, metadata: Metadata) -> Metadata:
        self._brokers = metadata.brokers
        for name, topic in metadata.topics.items():
            self._topic_ids[name] = topic.topic_id
            for index, partition in topic.partitions.items():
                self._leaders[name, index] = partition.leader
        return metadata

    def _where(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.settings.bootstrap)


def replaced(topic: str, expected: str, found: str) -> str:
    """What is said of a topic that was created again; a sentence without its full stop."""
    return (
        f"The topic {topic} was deleted and created again: its id is {found}, "
        f"and the offsets belong to the topic with the id {expected}"
    )


def _described(broker: BrokerConnection, names: Collection[str] | None) -> Metadata:
    versions = broker.versions()
    if versions.serves(Api.METADATA, messages_by_id.METADATA_VERSION):
        body = messages_by_id.metadata_request(names)
        return messages_by_id.metadata(broker.call(Api.METADATA, messages_by_id.METADATA_VERSION, body))
    versions.require(Api.METADATA, messages.METADATA_VERSION, "a client")
    body = messages.metadata_request(names)
    return messages.metadata(broker.call(Api.METADATA, messages.METADATA_VERSION, body))


def _is_unlikely(error: OSError) -> bool:
    """Whether wrong settings explain it better than a failure that passes."""
    return isinstance(error, UnlikelyResponse | socket.gaierror)
