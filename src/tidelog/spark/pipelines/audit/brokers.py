"""Replicas on the brokers that hold them, read by Fetch.

A broker is asked like a consumer that wants its nearest replica (KIP-392), so each returns its own bytes, up
to the high watermark that it knows: it serves no auditor what it would not serve a consumer. The request
names a rack. In the modes whose followers stand in for a leader, a follower serves only consumers with a
rack, because it takes any other for one that came while there was no leader. The rack is one that no broker
has, so a leader does not send the auditor elsewhere.

A replica that cannot be read does not end the audit: the report names it with the reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster, Patience
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClusterUnreachable, UnknownTopic, error_name, is_retriable
from tidelog.client.messages import EARLIEST, FETCH_VERSION, FetchedPartition, fetch_request, fetched
from tidelog.client.settings import ClientSettings
from tidelog.client.topic_settings import topic_setting
from tidelog.errors import ErrorCode
from tidelog.protocol.batch import iterate
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options
from tidelog.spark.pipelines.audit.replicas import Bytes, Missing, Replica, Unreadable

RACK = "tidelog-audit"
_FETCH_BYTES = 4 << 20
# A failover takes a moment; a replica that refuses for longer is named in the report.
_PATIENCE_MS, _PAUSE_MS = 10_000, 500
# Responses without records below the high watermark: the broker may be building an index. Compaction may also
# have left nothing there.
_EMPTY_MAX = 4


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """What one broker serves of one partition."""

    topic: str
    partition: int
    number: int  # of the broker
    address: tuple[str, int]
    client: ClientSettings
    start_offset: int
    end_offset: int  # the high watermark that the broker knew when it was asked

    def read(self, offset: int) -> Iterator[Bytes]:
        offset, empty = max(offset, self.start_offset), 0
        with _Fetcher(self.topic, self.partition, self.number, self.address, self.client) as fetcher:
            while offset < self.end_offset:
                response = fetcher.fetch(offset)
                if response.error and response.log_start_offset > offset:
                    offset = response.log_start_offset  # Retention has deleted what was about to be read.
                    continue
                fetcher.require_success(response)
                if not response.records:
                    empty += 1
                    if empty == _EMPTY_MAX:
                        return
                    continue
                empty = 0
                yield Bytes(f"fetched at {offset}", response.records, True)
                offset = max(_next_offset(response.records), offset + 1)


class _Fetcher:
    """Fetches from one broker, which is asked again for a while if it does not answer."""

    def __init__(
        self, topic: str, partition: int, number: int, address: tuple[str, int], client: ClientSettings
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._where = f"broker {number} at {address[0]}:{address[1]}"
        self._address = address
        self._client = client
        self._connection: BrokerConnection | None = None

    def __enter__(self) -> "_Fetcher":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def fetch(self, offset: int, max_bytes: int = _FETCH_BYTES) -> FetchedPartition:
        patience = Patience(_PATIENCE_MS, _PAUSE_MS)
        while True:
            try:
                response = self._ask(offset, max_bytes)
                if not is_retriable(response.error):
                    return response
                trouble = error_name(response.error)
            except OSError as error:
                self._close()
                trouble = str(error)
            try:
                patience.pause(trouble)
            except ClusterUnreachable:
                raise Unreadable(f"{self._where} does not serve it ({trouble})") from None

    def _ask(self, offset: int, max_bytes: int) -> FetchedPartition:
        if self._connection is None:
            self._connection = BrokerConnection(*self._address, self._client)
        body = fetch_request(
            self._topic, self._partition, offset, max_bytes=max_bytes, max_wait_ms=500, min_bytes=1,
            read_committed=False, rack=RACK,
        )  # fmt: skip
        return fetched(self._connection.call(Api.FETCH, FETCH_VERSION, body))

    def require_success(self, response: FetchedPartition) -> None:
        if response.error:
            raise Unreadable(f"{self._where} refuses to serve it ({error_name(response.error)})")
        if response.nearer_replica >= 0:
            raise Unreadable(f"{self._where} sends its readers to broker {response.nearer_replica}")


def _next_offset(records: memoryview) -> int:
    return max((header.next_offset for _, header in iterate(records)), default=0)


def behind_brokers(bootstrap: str, topics: list[str], options: Mapping[str, str]) -> list[Replica]:
    """Replicas on every broker that Metadata names for the topics."""
    client = client_settings(Options({"kafka.bootstrap.servers": bootstrap, **options}))
    with Cluster(client) as cluster:
        try:
            found = cluster.topics(topics)
        except UnknownTopic as error:
            raise OptionError(str(error)) from None
        return [
            _replica(cluster, client, topic, index, number)
            for topic in topics
            for index, partition in sorted(found[topic].partitions.items())
            for number in partition.replicas
        ]


def compacted_topics(bootstrap: str, topics: list[str], options: Mapping[str, str]) -> list[str]:
    """Those whose ``cleanup.policy`` has compact in it."""
    client = client_settings(Options({"kafka.bootstrap.servers": bootstrap, **options}))
    with Cluster(client) as cluster:
        policies = topic_setting(cluster, topics, "cleanup.policy")
    return [topic for topic, policy in policies.items() if "compact" in policy]


def _replica(cluster: Cluster, client: ClientSettings, topic: str, partition: int, number: int) -> Replica:
    """The broker's own log start offset and high watermark, from a fetch where the leader's log starts."""
    connection = cluster.broker(number)
    if connection is None:
        return _missing(topic, partition, number, f"broker {number} is down or cannot be reached")
    try:
        start = cluster.list_offsets({(topic, partition): EARLIEST})[topic, partition]
    except ClusterUnreachable:
        start = 0  # Without a leader, followers still know what is committed.
    try:
        with _Fetcher(topic, partition, number, connection.address, client) as fetcher:
            response = fetcher.fetch(start, max_bytes=1)
            if response.error == ErrorCode.OFFSET_OUT_OF_RANGE and response.log_start_offset >= 0:
                # Each replica applies retention by itself.
                response = fetcher.fetch(response.log_start_offset, max_bytes=1)
            fetcher.require_success(response)
    except Unreadable as error:
        return _missing(topic, partition, number, str(error))
    log = BrokerLog(
        topic, partition, number, connection.address, client, max(response.log_start_offset, 0),
        response.high_watermark,
    )  # fmt: skip
    return Replica(str(number), topic, partition, log.start_offset, log.end_offset, log)


def _missing(topic: str, partition: int, number: int, reason: str) -> Replica:
    return Replica(str(number), topic, partition, 0, -1, Missing(reason))
