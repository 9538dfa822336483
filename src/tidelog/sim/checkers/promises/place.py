"""One partition, as the newest metadata describes it."""

from typing import NamedTuple
from uuid import UUID

from tidelog.controller.image import PartitionImage, TopicImage

Key = tuple[UUID, int]


class Place(NamedTuple):
    topic: TopicImage
    number: int  # of the partition

    @property
    def key(self) -> Key:
        return self.topic.topic_id, self.number

    @property
    def partition(self) -> PartitionImage:
        return self.topic.partitions[self.number]

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.number}"
