"""Snapshots of the metadata to write and to read."""

from uuid import UUID

from tidelog.controller import snapshot_file
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.controller.snapshot_file import Contents
from tidelog.types import SnapshotId

TOPIC = UUID(int=7)


def an_image(values: int = 3) -> ClusterImage:
    partition = PartitionImage((1, 2, 3), (1, 2), 1, 9, 4, (3,), 1, 5)
    return ClusterImage(
        "cluster",
        {1: BrokerImage(1, UUID(int=1), "h", 9092, "rack", 3, False)},
        {"orders": TopicImage("orders", TOPIC, (partition,), {"retention.ms": "1"})},
        {TOPIC: "orders"},
        {"": {str(number): "x" for number in range(values)}},
        1000,
    )


def contents(end_offset: int = 10, epoch: int = 2, values: int = 3) -> Contents:
    return Contents(SnapshotId(end_offset, epoch), an_image(values), b"voters")


def file_of(what: Contents) -> bytes:
    return b"".join(snapshot_file.encode(what, now_ms=1000))
