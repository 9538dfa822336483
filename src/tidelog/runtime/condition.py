"""The condition of this broker, for probes and metrics: what an operator would want to know at a glance.

Counts partitions that have a replica here. Looks at metadata and logs when it is asked; nothing is kept.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.broker.broker import Broker
from tidelog.broker.node.node import Node
from tidelog.broker.partitions.partition import Partition
from tidelog.controller.successions import acting_leader
from tidelog.types import NO_BROKER


class Counts:
    """Of partitions with a replica on this broker."""

    def __init__(self) -> None:
        self.led = 0
        self.leaderless = 0
        self.under_replicated = 0  # of the led ones
        self.below_minimum = 0  # of the led ones: acks=all is refused
        self.failed = 0  # logs that cannot be written

    def add(self, broker: Broker, partition: Partition) -> None:
        if partition.log.failure is not None:
            self.failed += 1
        followed = partition.followed
        if followed is None:
            return
        topic = broker.image.topics.get(partition.name.topic)
        index = partition.name.partition
        known = followed.partition
        if topic is not None and index < len(topic.partitions):
            known = broker.newest_partition(topic, index)
        leader = acting_leader(known)
        if leader == NO_BROKER or leader in broker.lost_brokers:
            self.leaderless += 1
        if partition.leads:
            replica = partition.replica
            self.led += 1
            self.under_replicated += len(known.in_sync) < len(known.replicas)
            self.below_minimum += replica.policy.tracks_in_sync and len(replica.in_sync) < replica.min_in_sync


class Condition(NamedTuple):
    node: Node
    broker: Broker

    def problems(self) -> Iterator[str]:
        """Why this broker is not healthy; nothing: it is."""
        if self.node.metadata.leader < 0:
            yield "no active controller is known"
        if not self.node.ready:
            yield "no session with the controllers: this broker is fenced, or will be"
        if self.broker.partitions.has_failed_logs:
            yield "some logs cannot be written: the disk is full or failing"

    def unready(self) -> Iterator[str]:
        """Why this broker does not serve its partitions yet."""
        if not self.node.ready:
            yield "no session with the controllers: this broker is fenced, or will be"
        if not self.broker.partitions.all_open:
            yield "some partitions are not open yet"
