"""The broker as its parts see it: what coordinators, admission and answers to clients need of it. They do not
import the broker, which is made of them.
"""

from collections.abc import Set as AbstractSet
from typing import Protocol

from tidelog.broker.links.links import Links
from tidelog.broker.partitions.table import PartitionTable
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage, TopicImage
from tidelog.services import Services


class BrokerPorts(Protocol):
    @property
    def broker_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig:
        """As it is now: dynamic settings replace it."""

    @property
    def image(self) -> ClusterImage:
        """As far as this node has applied the metadata log."""

    @property
    def partitions(self) -> PartitionTable: ...

    @property
    def services(self) -> Services: ...

    @property
    def links(self) -> Links: ...

    @property
    def lost_brokers(self) -> AbstractSet[int]:
        """Whose connections have just closed: the metadata may still call them leaders."""

    def newest(self, topic: TopicImage) -> TopicImage:
        """The topic with the newest leaders that are known here."""
