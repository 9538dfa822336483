"""What the page has seen of a cluster, as plain values. Pure: it knows neither sockets nor clocks.

Every answer of a broker is kept as it came, with the time at which it came where that matters. What a person
is shown follows from these values alone: :mod:`tidelog.page.state`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.client.topic_partitions import PartitionSeen, TopicSeen

NO_LEADER = -1


class BrokerSeen(NamedTuple):
    """A broker as the metadata name it."""

    broker: int
    host: str
    port: int
    rack: str
    fenced: bool

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class Quorum(NamedTuple):
    """The controllers."""

    leader: int = NO_LEADER  # the active one
    epoch: int = -1
    voters: tuple[int, ...] = ()


class ClusterSeen(NamedTuple):
    """What one broker says about all of them."""

    cluster_id: str
    brokers: Mapping[int, BrokerSeen]
    quorum: Quorum
    topics: Mapping[str, TopicSeen]
    asked: tuple[str, int] = ("", 0)  # the address of the broker that said so


class Pulse(NamedTuple):
    """Whether a broker answers its own connection."""

    responds: bool
    reason: str = ""  # why not
    since_ms: int = 0
    ended: bool = False  # Its address refuses connections, so the other brokers know that it has ended.


class Replicas(NamedTuple):
    """What one broker says of its own replicas."""

    total_bytes: int = -1  # of the volume; -1: unknown
    free_bytes: int = -1
    failed: bool = False  # Some logs cannot be written.
    # Of each topic: partition → size in bytes, committed records that the replica lacks.
    of_topics: Mapping[str, Mapping[int, tuple[int, int]]] = {}
    refused: bool = False  # The page's user may not describe the cluster.

    @property
    def size_bytes(self) -> int:
        if self.refused:
            return -1
        return sum(size for topic in self.of_topics.values() for size, _ in topic.values())


class Figures(NamedTuple):
    """What a broker's HTTP port says about its process; -1: unknown."""

    cpu: float = -1.0  # cores in use
    loop_lag_ms: float = -1.0
    memory_bytes: int = -1
    requests_s: float = -1.0
    connections: int = -1


class SettingSeen(NamedTuple):
    value: str | None  # None: hidden, or without a value
    source: int = 5  # Kafka's number for who set it; 5: the default


Settings = Mapping[str, SettingSeen]


@dataclass
class Facts:
    """The newest answers. The watcher replaces values as a whole: an unchanged one is the same object."""

    cluster: ClusterSeen | None = None
    pulses: dict[int, Pulse] = field(default_factory=dict)
    ends: dict[str, dict[int, int]] = field(default_factory=dict)  # high watermarks, by topic and partition
    rates: dict[str, float] = field(default_factory=dict)  # records per second, by topic
    replicas: dict[int, Replicas] = field(default_factory=dict)
    figures: dict[int, Figures] = field(default_factory=dict)
    settings: dict[str, Settings] = field(default_factory=dict)  # of topics

    def silent(self) -> frozenset[int]:
        """Brokers that do not answer, whatever the metadata say."""
        return frozenset(broker for broker, pulse in self.pulses.items() if not pulse.responds)

    def away(self) -> frozenset[int]:
        """Brokers that serve no client now: silent or fenced."""
        brokers = self.cluster.brokers.values() if self.cluster is not None else ()
        return self.silent() | {each.broker for each in brokers if each.fenced}

    def frozen(self) -> frozenset[int]:
        """Those away of which the others do not know whether they have ended."""
        return self.away() - {broker for broker, pulse in self.pulses.items() if pulse.ended}


def is_offline(partition: PartitionSeen, away: frozenset[int]) -> bool:
    """No broker takes writes: there is no leader, or it is not there."""
    return partition.leader == NO_LEADER or partition.leader in away


def with_absent(cluster: ClusterSeen, known: Mapping[int, BrokerSeen]) -> ClusterSeen:
    """Brokers that the answer does not name: Kafka forgets a dead broker where Tidelog calls it fenced. Their
    replicas are still theirs.
    """
    holders = {
        replica for topic in cluster.topics.values() for each in topic.partitions for replica in each.replicas
    }
    absent = {
        broker: known.get(broker, BrokerSeen(broker, "", 0, "", True))._replace(fenced=True)
        for broker in holders - cluster.brokers.keys()
    }
    brokers = dict(sorted((dict(cluster.brokers) | absent).items()))
    return cluster._replace(brokers=brokers)
