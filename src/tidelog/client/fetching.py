"""Fetches of one partition, one after another, across leader changes and broker failures.

Owns which broker is asked and when to retry. The next request can be in flight while the last response is
processed: :meth:`PartitionFetcher.ask`, then :meth:`PartitionFetcher.take`. Does not decode records.
"""

from dataclasses import dataclass
from typing import Any

from tidelog.client import messages, messages_by_id
from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster, Patience
from tidelog.client.connection import BrokerConnection, Room
from tidelog.client.errors import FetchOffsetOutOfRange, Refused, UnknownTopic, is_retriable
from tidelog.client.messages import FetchedPartition
from tidelog.errors import ErrorCode

_UNKNOWN_TOPIC_TRIES = 5


@dataclass(frozen=True, slots=True)
class FetchSettings:
    max_bytes: int = 4 << 20
    max_wait_ms: int = 500
    min_bytes: int = 1
    read_committed: bool = False
    rack: str = ""
    check_crcs: bool = True


class PartitionFetcher:
    """At most one request is in flight."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        settings: FetchSettings,
        patience: Patience,
        topic_id: str = "",
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._topic_id = topic_id  # of the topic whose offsets are asked for; empty: unknown
        self._settings = settings
        self._patience = patience
        self._offset = 0
        self._asked: BrokerConnection | None = None
        self._asked_by_id = False
        self._room = Room()
        self._nearer: int | None = None  # a follower in our rack, while it works
        self._unknown_left = _UNKNOWN_TOPIC_TRIES

    def ask(self, offset: int, max_bytes: int | None = None) -> None:
        """Request records from the offset on. Failures are handled by :meth:`take`."""
        self._offset = offset
        self._max_bytes = max_bytes or self._settings.max_bytes
        self._send()

    def take(self) -> FetchedPartition:
        """The response to the last request, from the leader at that time.

        Its records are valid until the next response is taken.
        """
        while True:
            if self._asked is None:
                self._send()
            connection, self._asked = self._asked, None
            if connection is None:
                continue
            try:
                parsed = messages_by_id.fetched if self._asked_by_id else messages.fetched
                response = parsed(connection.receive(self._room))
            except OSError as error:
                self._lost(connection, error)
                continue
            if not response.error:
                if response.nearer_replica >= 0:
                    self._nearer = response.nearer_replica
                    continue  # the leader sends no records: fetch there
                if response.records:
                    self._patience.renew()
                self._unknown_left = _UNKNOWN_TOPIC_TRIES
                return response
            self._refused(response.error)

    def wait(self, reason: str) -> None:
        """No records arrived though there should be some: wait, for a limited time."""
        self._patience.pause(f"{self._name} at offset {self._offset}: {reason}")

    @property
    def _name(self) -> str:
        return f"{self._topic}-{self._partition}"

    def _send(self) -> None:
        connection = None if self._nearer is None else self._cluster.broker(self._nearer)
        if connection is None:
            self._nearer = None
            connection = self._cluster.leader(self._topic, self._partition, self._patience)
            self._cluster.check_topic_id(self._topic, self._topic_id)
        try:
            self._send_to(connection)
            self._asked = connection
        except OSError as error:
            self._lost(connection, error)

    def _send_to(self, connection: BrokerConnection) -> None:
        versions = connection.versions()
        options: dict[str, Any] = {
            "max_bytes": self._max_bytes,
            "max_wait_ms": self._settings.max_wait_ms,
            "min_bytes": self._settings.min_bytes,
            "read_committed": self._settings.read_committed,
            "rack": self._settings.rack,
        }
        by_id = bool(self._topic_id) and versions.serves(Api.FETCH, messages_by_id.FETCH_VERSION)
        if by_id:
            version = messages_by_id.FETCH_VERSION
            body = messages_by_id.fetch_request(self._topic_id, self._partition, self._offset, **options)
        else:
            version = messages.FETCH_VERSION
            versions.require(Api.FETCH, version, "reading")
            body = messages.fetch_request(self._topic, self._partition, self._offset, **options)
        connection.send(Api.FETCH, version, body)
        self._asked_by_id = by_id

    def _lost(self, connection: BrokerConnection, error: OSError) -> None:
        self._nearer = None
        self._cluster.drop(connection)
        self._cluster.forget(self._topic, self._partition)
        self._patience.pause(f"fetching {self._name} from {connection.address[0]}: {error}")

    def _refused(self, code: int) -> None:
        if self._nearer is not None:
            self._nearer = None  # a follower knows less: the leader decides
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise FetchOffsetOutOfRange(f"{self._name} no longer has offset {self._offset}")
        if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            # A new leader may not know yet that it leads; a deleted topic stays unknown.
            self._unknown_left -= 1
            if self._unknown_left < 0:
                if not self._cluster.known_topics([self._topic]):
                    raise UnknownTopic(f"The topic {self._topic} is not there any more")
                self._cluster.check_topic_id(self._topic, self._topic_id)
        elif not is_retriable(code):
            raise Refused(f"{self._name} cannot be fetched", code)
        self._cluster.forget(self._topic, self._partition)
        self._patience.pause(Refused(f"{self._name} cannot be fetched yet", code))
