"""The interface of the broker for its parts: coordinators, admission, responses to clients. They cannot
import the broker, because the broker imports them.
"""

from collections.abc import Set as AbstractSet
from typing import Protocol

from tidelog.broker.links.links import Links
from tidelog.broker.partitions.table import PartitionTable
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.services import Services


class BrokerPorts(Protocol):
    @property
    def broker_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig:
        """The current settings; replaced when a dynamic setting changes."""

    @property
    def image(self) -> ClusterImage:
        """The metadata as far as this node has applied the log."""

    @property
    def partitions(self) -> PartitionTable: ...

    @property
    def services(self) -> Services: ...

    @property
    def links(self) -> Links: ...

    @property
    def lost_brokers(self) -> AbstractSet[int]:
        """Brokers whose connections have just closed. The metadata may still list them as leaders."""

    def newest(self, topic: TopicImage) -> TopicImage:
        """The topic with the newest leaders known to this broker."""

    def newest_partition(self, topic: TopicImage, index: int) -> PartitionImage: ...
