"""The coordinators of one broker."""

from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.internal_topics import InternalTopics
from tidelog.broker.partition import Partition

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


class Coordinators:
    def __init__(self, broker: "Broker") -> None:
        self.topics = InternalTopics(broker)
        self._all: tuple[Coordinator[Any], ...] = ()

    def follow(self) -> None:
        """After a change of metadata, when all partitions are open."""
        for coordinator in self._all:
            coordinator.follow()

    def role_changed(self, partition: Partition) -> None:
        for coordinator in self._all:
            coordinator.role_changed(partition)

    def close(self) -> None:
        for coordinator in self._all:
            coordinator.close()
