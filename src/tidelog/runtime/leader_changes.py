"""Counts the partitions whose leader this broker became, and how long they were without one before.

A broker knows only of its own successes, so the sum over all brokers is that of the cluster. The time begins
when the former leader's connections to this broker closed, or, for a leader that was frozen or cut off, when
its last message came. Leadership that was moved from a living broker has no such time.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from tidelog.broker.node.node import Node
from tidelog.broker.partitions.partition import Partition
from tidelog.replication.replica import Role
from tidelog.runtime.lag import Histogram
from tidelog.services import Services
from tidelog.types import NO_BROKER, TopicPartition

BOUNDS_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class LeaderChanges:
    def __init__(self, node: Node, services: Services) -> None:
        self._node = node
        self._services = services
        self._leaders: dict[TopicPartition, int] = {}  # the last known leader that was another broker
        self._epochs: dict[TopicPartition, int] = {}  # of the last time this broker became the leader
        self.changes = 0
        self.unclean = 0
        self.durations = Histogram(BOUNDS_S)
        partitions = node.partitions
        for partition in list(partitions):
            self.role_changed(partition)
        partitions.on_role.append(self.role_changed)

    def forget_all_but(self, names: AbstractSet[TopicPartition]) -> None:
        """Partitions that are not on this broker any more."""
        for known in (self._leaders, self._epochs):
            for name in known.keys() - names:
                del known[name]

    def role_changed(self, partition: Partition) -> None:
        name, replica = partition.name, partition.replica
        if replica.role is not Role.LEADER:
            if replica.leader != NO_BROKER:
                self._leaders[name] = replica.leader
            return
        if self._epochs.get(name) == replica.epoch:
            return
        self._epochs[name] = replica.epoch
        self.changes += 1
        self.unclean += replica.epoch == partition.driver.unclean_epoch
        since_ms = self._lost_since_ms(self._leaders.pop(name, NO_BROKER))
        if since_ms is not None:
            self.durations.add((self._services.uptime_ms() - since_ms) / 1000)

    def _lost_since_ms(self, leader: int) -> int | None:
        sightings = self._node.sightings
        if leader == NO_BROKER:
            return None
        lost_ms = sightings.lost_since_ms(leader)
        if lost_ms is not None:
            return lost_ms
        known = self._node.metadata.image.brokers.get(leader)
        return sightings.last_heard_ms(leader) if known is not None and known.fenced else None
