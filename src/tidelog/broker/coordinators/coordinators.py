"""The coordinators of one broker."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.group_machine import GroupMachine
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, InternalTopics
from tidelog.broker.coordinators.markers import MarkerSender
from tidelog.broker.coordinators.producer_ids import ProducerIds
from tidelog.broker.coordinators.transaction_machine import TransactionMachine
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.partitions.partition import Partition


class Coordinators:
    def __init__(self, broker: BrokerPorts, producer_ids: ProducerIds) -> None:
        self._broker = broker
        self.topics = InternalTopics(broker)
        self.groups = Coordinator(broker, CONSUMER_OFFSETS, lambda shard: GroupMachine(shard, broker))
        markers = MarkerSender(broker, self.of)
        self.transactions = Coordinator(
            broker, TRANSACTION_STATE, lambda shard: TransactionMachine(shard, broker, producer_ids, markers)
        )
        self._all: dict[str, Coordinator[Any]] = {
            self.groups.topic: self.groups,
            self.transactions.topic: self.transactions,
        }
        self._known_topics: Mapping[UUID, str] = {}
        broker.partitions.on_role.append(self.role_changed)

    def of(self, topic: str) -> Coordinator[Any] | None:
        """The coordinator whose state is stored in this topic; None for any other topic."""
        return self._all.get(topic)

    def follow(self) -> None:
        """Called after a change of metadata, when all partitions are open."""
        for coordinator in self._all.values():
            coordinator.follow()
        self._forget_deleted_topics()

    def _forget_deleted_topics(self) -> None:
        known, self._known_topics = self._known_topics, self._broker.image.topic_names
        deleted = [name for topic_id, name in known.items() if topic_id not in self._known_topics]
        if deleted:
            for machine in self.groups.machines():
                machine.topics_deleted(deleted)

    def role_changed(self, partition: Partition) -> None:
        coordinator = self._all.get(partition.name.topic)
        if coordinator is not None:
            coordinator.role_changed(partition)

    def close(self) -> None:
        """The broker stops: refuse all pending requests."""
        for coordinator in self._all.values():
            coordinator.close()
