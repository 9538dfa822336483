"""The last failover in the stages it had, as the page saw it. Pure: times come in as arguments.

Its stages are as exact as the page asks: it asks more often for a while after a broker stopped answering
(:data:`tidelog.page.watcher.BURST_S`).
"""

from typing import Any

from tidelog.client.messages import TopicPartition
from tidelog.page.facts import NO_LEADER, ClusterSeen


class Failover:
    """One broker that stopped answering, and what became of the partitions that it led."""

    def __init__(self, broker: int, at_ms: int, cluster: ClusterSeen | None) -> None:
        self.broker = broker
        self._at_ms = at_ms
        self._led = frozenset(
            (name, index)
            for name, topic in (cluster.topics.items() if cluster is not None else ())
            for index, each in enumerate(topic.partitions)
            if each.leader == broker
        )
        self._moved: dict[TopicPartition, int] = {}  # to which broker
        self._decided_ms = -1  # The first partition had another leader.
        self._complete_ms = -1  # The last one that got one so far.
        self._written_ms = -1  # One of the new leaders committed a record.

    def cluster_seen(self, cluster: ClusterSeen, at_ms: int) -> None:
        for name, index in self._led - self._moved.keys():
            topic = cluster.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                continue
            leader = topic.partitions[index].leader
            if leader in (NO_LEADER, self.broker):
                continue
            self._moved[name, index] = leader
            self._complete_ms = at_ms - self._at_ms
            if self._decided_ms < 0:
                self._decided_ms = self._complete_ms

    def grown(self, partition: TopicPartition, leader: int, at_ms: int) -> None:
        """This broker, which leads the partition, committed more records."""
        if self._written_ms < 0 and self._moved.get(partition) == leader:
            self._written_ms = at_ms - self._at_ms

    def row(self) -> dict[str, Any]:
        return {
            "broker": self.broker,
            "at": self._at_ms,
            "led": len(self._led),
            "moved": len(self._moved),
            "decided_ms": self._decided_ms,
            "complete_ms": self._complete_ms,
            "written_ms": self._written_ms,
        }
