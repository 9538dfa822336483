"""Facts about small clusters, for tests of what is shown."""

from tidelog.client.topic_partitions import PartitionSeen, TopicSeen
from tidelog.page.facts import BrokerSeen, ClusterSeen, Facts, Pulse, Quorum, SettingSeen

DEFAULTS = {
    "replication.mode": "isr",
    "min.insync.replicas": "2",
    "flush.messages": "9223372036854775807",
    "unclean.leader.election.enable": "false",
}


def partition(
    leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...] | None = None
) -> PartitionSeen:
    return PartitionSeen(leader, 1, replicas, replicas if in_sync is None else in_sync)


def cluster(
    *partitions: PartitionSeen, topic: str = "orders", fenced: frozenset[int] = frozenset(), active: int = 1
) -> ClusterSeen:
    brokers = {
        number: BrokerSeen(number, "127.0.0.1", 9091 + number, "", number in fenced) for number in (1, 2, 3)
    }
    topics = {topic: TopicSeen("id", False, partitions)} if partitions else {}
    return ClusterSeen("cluster", brokers, Quorum(active, 1, (1, 2, 3)), topics)


def facts(seen: ClusterSeen | None, silent: frozenset[int] = frozenset(), **settings: str) -> Facts:
    """``settings``: of all topics, with _ for the dots in their names."""
    values = DEFAULTS | {name.replace("_", "."): value for name, value in settings.items()}
    return Facts(
        cluster=seen,
        pulses={
            number: Pulse(False, "it is gone", ended=True) if number in silent else Pulse(True)
            for number in (1, 2, 3)
        },
        settings={
            name: {key: SettingSeen(value) for key, value in values.items()}
            for name in (seen.topics if seen is not None else ())
        },
    )
