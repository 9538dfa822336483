"""Which brokers an internal topic's partitions get replicas on, once there are enough."""

from uuid import UUID

from tidelog.broker.housekeeping.internal_replicas import more_replicas
from tidelog.controller.availability import DRAIN_SETTING
from tidelog.controller.brokers import fenced
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerRegistered,
    MetadataRecord,
    TopicCreated,
)
from unit.controller.clusters import cluster

NAME = "__consumer_offsets"


def with_topic(
    image: ClusterImage, *replicas: list[int], then: tuple[MetadataRecord, ...] = ()
) -> ClusterImage:
    return image.apply([TopicCreated(NAME, UUID(int=9), list(replicas), {}), *then])


def raised(image: ClusterImage, wanted: int = 3) -> dict[int, tuple[int, ...]]:
    return more_replicas(image, image.topics[NAME], wanted)


def test_one_broker_became_three() -> None:
    image = with_topic(cluster(1, 2, 3), [1], [1])
    assert raised(image) == {0: (1, 2, 3), 1: (1, 2, 3)}


def test_no_more_than_brokers_and_than_the_setting() -> None:
    assert raised(with_topic(cluster(1, 2), [1], [2])) == {0: (1, 2), 1: (2, 1)}
    assert raised(with_topic(cluster(1, 2, 3), [1, 2], [2, 1]), wanted=2) == {}
    assert raised(with_topic(cluster(1, 2, 3, 4), [1, 2, 3])) == {}


def test_the_load_is_spread() -> None:
    image = with_topic(cluster(1, 2, 3, 4), [1], [1], [1])
    assert raised(image, wanted=2) == {0: (1, 2), 1: (1, 3), 2: (1, 4)}


def test_other_racks_come_first() -> None:
    racks = [
        BrokerRegistered(each, UUID(int=each), "h", 9092, rack)
        for each, rack in ((1, "a"), (2, "a"), (3, "b"))
    ]
    assert raised(with_topic(cluster(1, 2, 3).apply(racks), [1]), wanted=2) == {0: (1, 3)}


def test_brokers_that_may_be_removed_get_none() -> None:
    drained = BrokerConfigChanged("2", {DRAIN_SETTING: "true"})
    image = with_topic(cluster(1, 2, 3), [1]).apply([drained, fenced(3)])
    assert raised(image) == {}
