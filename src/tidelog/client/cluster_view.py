"""What one broker reports about its cluster: brokers, controller, leaders.

Cheaper than a Kafka client and quicker to fail: an incomplete or invalid response raises OSError, or counts
as "not ready".
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tidelog.client import messages
from tidelog.client.apis import Api
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClientError, UnlikelyResponse
from tidelog.client.reader import Reader, compact_string
from tidelog.client.settings import OPEN, ClientSettings, Security

_METADATA_TOPIC = "__cluster_metadata"
_DESCRIBE_QUORUM = b"\x02" + compact_string(_METADATA_TOPIC) + b"\x02" + bytes(4) + bytes(3)


class PartitionView(NamedTuple):
    """What a broker reports about one partition."""

    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What one broker reports about the cluster."""

    brokers: dict[int, tuple[str, int]]  # unfenced brokers, with host and port
    controller: int  # -1: none known
    topics: dict[str, list[PartitionView]]  # of the requested topics, those that exist


def responds(host: str, port: int, timeout_s: float = 5.0, *, security: Security = OPEN) -> bool:
    """Whether a broker there answers an ApiVersions request without error."""
    try:
        with _connected(host, port, timeout_s, security) as connection:
            return _speaks_kafka(connection)
    except OSError:
        return False


def is_ready(
    host: str, port: int, brokers: int = 1, timeout_s: float = 2.0, *, security: Security = OPEN
) -> bool:
    """Whether the broker there knows a controller and that many unfenced brokers, which topics and their
    replicas need.
    """
    try:
        view = view_cluster(host, port, timeout_s=timeout_s, security=security)
    except OSError:
        return False
    return view.controller >= 0 and len(view.brokers) >= brokers


def view_cluster(
    host: str, port: int, *topics: str, timeout_s: float = 2.0, security: Security = OPEN
) -> ClusterView:
    """What this broker reports about the cluster and these topics; OSError if the response is invalid."""
    with _connected(host, port, timeout_s, security) as connection:
        if not _speaks_kafka(connection):
            raise ConnectionError(f"{host}:{port} is not a Kafka broker")
        # Metadata names brokers, too, but keeps naming a dead one for a while, for clients' sake.
        brokers, controller = _unfenced(Reader(connection.call(Api.DESCRIBE_CLUSTER, 0, bytes(2))))
        if not topics:
            return ClusterView(brokers, controller, {})
        body = messages.metadata_request(topics)
        found = messages.metadata(connection.call(Api.METADATA, messages.METADATA_VERSION, body)).topics
    return ClusterView(
        brokers, controller, {name: _views(topic) for name, topic in found.items() if topic.partitions}
    )


def active_controller(host: str, port: int, timeout_s: float = 2.0, *, security: Security = OPEN) -> int:
    """The node that leads the controllers' quorum, -1 if this broker knows of none.

    Metadata names a controller, too, but a Kafka broker names any broker there, since every broker forwards
    requests to the controller.
    """
    with _connected(host, port, timeout_s, security) as connection:
        return _quorum_leader(Reader(connection.call(Api.DESCRIBE_QUORUM, 0, _DESCRIBE_QUORUM)))


def voter_directories(
    host: str, port: int, timeout_s: float = 2.0, *, security: Security = OPEN
) -> dict[int, UUID]:
    """The controllers that vote, each with the id of its disk; empty if this broker knows of no quorum. A
    controller that lost its disk is listed with the old one until it is readmitted.
    """
    with _connected(host, port, timeout_s, security) as connection:
        return _voters(Reader(connection.call(Api.DESCRIBE_QUORUM, 2, _DESCRIBE_QUORUM)))


def _connected(host: str, port: int, timeout_s: float, security: Security) -> BrokerConnection:
    timeout_ms = max(int(timeout_s * 1000), 1)
    settings = ClientSettings(
        ((host, port),),
        client_id="",
        tls=security.tls,
        sasl=security.sasl,
        request_timeout_ms=timeout_ms,
        connect_timeout_ms=timeout_ms,
    )
    try:
        return BrokerConnection(host, port, settings)
    except ClientError as error:  # a certificate or a password
        raise UnlikelyResponse(str(error)) from None


def _speaks_kafka(connection: BrokerConnection) -> bool:
    response = connection.call(Api.API_VERSIONS, 0, b"")
    return len(response) >= 2 and Reader(response).int16() == 0


def _unfenced(reader: Reader) -> tuple[dict[int, tuple[str, int]], int]:
    """From DescribeCluster: unfenced brokers, and the controller."""
    reader.int32()  # throttle time
    error = reader.int16()
    reader.compact_string()  # its message
    if error:
        raise ConnectionError(f"the broker refuses to describe its cluster: error code {error}")
    reader.compact_string()  # cluster id
    controller = reader.int32()
    brokers = {}
    for _ in range(reader.compact_count()):
        broker_id, host, port = reader.int32(), reader.compact_string(), reader.int32()
        reader.compact_string()  # rack
        reader.skip_tags()
        brokers[broker_id] = (host, port)
    return brokers, controller


def _views(topic: messages.TopicMetadata) -> list[PartitionView]:
    return [PartitionView(*partition[1:]) for _, partition in sorted(topic.partitions.items())]


def _voters(reader: Reader) -> dict[int, UUID]:
    error = reader.int16()
    reader.compact_string()  # its message
    if error or reader.compact_count() != 1:
        return {}
    reader.compact_string()
    reader.compact_count()  # number of partitions: the one requested
    reader.int32()
    error = reader.int16()
    reader.compact_string()
    if error:
        return {}
    reader.int32()  # leader
    reader.int32()  # its epoch
    reader.int64()  # high watermark
    voters = {}
    for _ in range(reader.compact_count()):
        number, directory = reader.int32(), UUID(bytes=bytes(reader.span(16)))
        reader.span(24)  # end offset, and two timestamps
        reader.skip_tags()
        voters[number] = directory
    return voters


def _quorum_leader(reader: Reader) -> int:
    error, topics = reader.int16(), reader.compact_count()
    if error or topics != 1:
        return -1
    reader.compact_string()
    reader.compact_count()  # number of partitions: the one requested
    reader.int32()
    error, leader = reader.int16(), reader.int32()
    return -1 if error else leader
