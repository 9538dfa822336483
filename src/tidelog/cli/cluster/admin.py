"""What the cluster commands ask of a cluster, as plain values ready for a table or for JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.cli.cluster_client import ClusterClient, check
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import Address
from tidelog.errors import ErrorCode

DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_LOG_DIRS = 32, 44, 35
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
DESCRIBE_QUORUM, DESCRIBE_CLUSTER, UNREGISTER = 55, 60, 64
DESCRIBE_TOPIC_PARTITIONS = 75
PAGE_PARTITIONS = 2000
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
EVERY_BROKER = ""  # the name of the settings of all brokers
DRAIN_SETTING = "broker.drain"
NO_LEADER = -1
REQUEST_MS = 10_000  # how long the controllers may take
METADATA_LOG = "__cluster_metadata"

Name = tuple[str, int]
"""A partition: topic and number."""


class Broker(NamedTuple):
    broker: int
    address: Address
    rack: str | None
    fenced: bool


class Partition(NamedTuple):
    topic: str
    partition: int
    leader: int  # -1: none
    replicas: list[int]
    in_sync: list[int]
    failed: tuple[int, ...] = ()  # replicas on available brokers whose logs have failed

    @property
    def name(self) -> Name:
        return self.topic, self.partition

    @property
    def under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


class Moving(NamedTuple):
    """A partition whose replicas are being moved."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def name(self) -> Name:
        return self.topic, self.partition


class Cluster(NamedTuple):
    cluster_id: str
    controller: int
    brokers: dict[int, Broker]
    partitions: list[Partition]

    @property
    def unfenced(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if not broker.fenced]

    @property
    def fenced(self) -> set[int]:
        return {broker.broker for broker in self.brokers.values() if broker.fenced}

    def broker(self, wanted: int) -> Broker:
        """Registered, up or not; one that is not is a failure."""
        if wanted not in self.brokers:
            known = ", ".join(map(str, self.brokers))
            raise CommandFailed(f"There is no broker {wanted}; existing brokers: {known}.")
        return self.brokers[wanted]

    def of(self, topics: Iterable[str]) -> list[Partition]:
        """The partitions of these topics; a topic that does not exist is a failure."""
        wanted = list(dict.fromkeys(topics))
        found = [partition for partition in self.partitions if partition.topic in wanted]
        for topic in wanted:
            if not any(partition.topic == topic for partition in found):
                raise CommandFailed(
                    f"Topic '{topic}' does not exist; `tidelog topic list` shows the existing ones."
                )
        return found


def look(client: ClusterClient) -> Cluster:
    described = client.ask(None, DESCRIBE_CLUSTER, {"endpoint_type": 1, "include_fenced_brokers": True})
    check(described.error_code, described.error_message)
    brokers = [
        Broker(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
        for each in described.brokers
    ]
    fenced = {broker.broker for broker in brokers if broker.fenced}
    partitions = [
        Partition(
            topic.name,
            each.partition_index,
            each.leader_id,
            [*each.replica_nodes],
            [*each.isr_nodes],
            tuple(replica for replica in each.offline_replicas if replica not in fenced),
        )
        for topic in _topics(client)
        for each in topic.partitions
    ]
    return Cluster(
        described.cluster_id,
        described.controller_id,
        {broker.broker: broker for broker in sorted(brokers)},
        sorted(partitions),
    )


def _topics(client: ClusterClient) -> Iterator[Any]:
    """Page by page. Not by Metadata, which names a backup as leader while a primary is down."""
    cursor = None
    while True:
        body = {"topics": [], "response_partition_limit": PAGE_PARTITIONS, "cursor": cursor}
        response = client.ask(None, DESCRIBE_TOPIC_PARTITIONS, body)
        yield from response.topics
        if response.next_cursor is None:
            return
        topic, index = response.next_cursor.topic_name, response.next_cursor.partition_index
        cursor = {"topic_name": topic, "partition_index": index}


def moving(client: ClusterClient) -> list[Moving]:
    response = client.ask(None, LIST_REASSIGNMENTS, {"timeout": REQUEST_MS, "topics": None})
    check(response.error_code, response.error_message)
    return sorted(
        Moving(
            topic.name,
            each.partition_index,
            [*each.replicas],
            [*each.adding_replicas],
            [*each.removing_replicas],
        )
        for topic in response.topics
        for each in topic.partitions
    )


def drained(client: ClusterClient, cluster: Cluster) -> set[int]:
    """Drained brokers. Each broker is asked, because only it knows its settings."""
    found = set()
    for broker in cluster.unfenced:
        resource = {
            "resource_type": BROKER_RESOURCE,
            "resource_name": str(broker.broker),
            "configuration_keys": [DRAIN_SETTING],
        }
        try:
            response = client.ask(broker.address, DESCRIBE_CONFIGS, {"resources": [resource]})
        except CommandFailed:
            continue  # It has failed since; the next status shows that.
        if any(config.value == "true" for result in response.results for config in result.configs):
            found.add(broker.broker)
    return found


def quorum(client: ClusterClient) -> dict[str, Any]:
    """The controllers: their roles, and how much of the metadata log each has."""
    topics = [{"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}]
    response = client.ask(None, DESCRIBE_QUORUM, {"topics": topics})
    check(response.error_code, response.error_message)
    (partition,) = response.topics[0].partitions
    check(partition.error_code, partition.error_message)
    end = max((each.log_end_offset for each in partition.current_voters), default=0)

    def row(each: Any, role: str) -> dict[str, Any]:
        return {
            "controller": each.replica_id,
            "role": "active" if each.replica_id == partition.leader_id else role,
            "end_offset": each.log_end_offset,
            "lag": max(end - each.log_end_offset, 0) if each.log_end_offset >= 0 else None,
        }

    return {
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "controllers": [
            *(row(each, "voter") for each in partition.current_voters),
            *(row(each, "observer") for each in partition.observers),
        ],
    }


def unless_fenced(client: ClusterClient, brokers: list[int]) -> list[int]:
    """Those of the brokers that may coordinate something: a fenced one does not."""
    if not brokers:
        return []
    unfenced = {each.broker for each in look(client).unfenced}
    return [broker for broker in brokers if broker in unfenced]


# --- changing -----------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Of a change to one partition."""

    error: str  # Kafka's name, or "NONE"
    words: str  # the broker's

    @classmethod
    def of(cls, part: Any) -> "Outcome":
        return cls(ErrorCode(part.error_code).name, part.error_message or "")

    @property
    def done(self) -> bool:
        return self.error == ErrorCode.NONE.name


def elect(client: ClusterClient, names: Iterable[Name], *, unclean: bool = False) -> dict[Name, Outcome]:
    """Have leaders elected."""
    topics: dict[str, list[int]] = {}
    for topic, partition in names:
        topics.setdefault(topic, []).append(partition)
    body = {
        "election_type": UNCLEAN if unclean else PREFERRED,
        "topic_partitions": [{"topic": topic, "partitions": each} for topic, each in topics.items()],
        "timeout": REQUEST_MS,
    }
    response = client.ask(None, ELECT_LEADERS, body)
    check(response.error_code)
    return {
        (topic.topic, each.partition_id): Outcome(ErrorCode(each.error_code).name, each.error_message or "")
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def reassign(client: ClusterClient, targets: Mapping[Name, list[int] | None]) -> dict[Name, Outcome]:
    """Begin to move partitions to these replicas; None stops a move that is under way."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), replicas in targets.items():
        topics.setdefault(topic, []).append({"partition_index": partition, "replicas": replicas})
    body = {
        "timeout": REQUEST_MS,
        "allow_replication_factor_change": True,
        "topics": [{"name": topic, "partitions": each} for topic, each in topics.items()],
    }
    response = client.ask(None, ALTER_REASSIGNMENTS, body)
    check(response.error_code, response.error_message)
    return {
        (topic.name, each.partition_index): Outcome(ErrorCode(each.error_code).name, each.error_message or "")
        for topic in response.responses
        for each in topic.partitions
    }


def alter_setting(client: ClusterClient, kind: int, name: str, key: str, value: str | None) -> None:
    """Set one setting of a topic or broker, or with None put it back to what holds without it."""
    alter_settings(client, kind, [name], {key: value})


def alter_settings(
    client: ClusterClient, kind: int, names: Iterable[str], values: Mapping[str, str | None]
) -> None:
    """The same settings of several topics or brokers, whichever of them are up."""
    configs = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in values.items()
    ]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs} for name in names]
    response = client.ask(None, INCREMENTAL_ALTER_CONFIGS, {"resources": resources, "validate_only": False})
    for result in response.responses:
        check(result.error_code, result.error_message)


def unregister(client: ClusterClient, broker: int) -> None:
    response = client.ask(None, UNREGISTER, {"broker_id": broker})
    check(response.error_code, response.error_message)
