"""The image: what a row of records adds up to, and that no image ever changes."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.image import ClusterImage
from tidelog.controller.records import (
    BrokerConfigChanged,
    BrokerRegistered,
    ClusterFounded,
    MetadataRecord,
    PartitionsAdded,
    TopicConfigChanged,
    TopicDeleted,
)
from tidelog.errors import InvariantViolation
from unit.controller.clusters import cluster, created, topic_id


def test_an_empty_cluster() -> None:
    image = ClusterImage()
    assert (image.cluster_id, len(image.brokers), len(image.topics)) == ("", 0, 0)
    assert image.topic_by_id(topic_id(1)) is None


def test_brokers_come_back_with_another_address() -> None:
    image = cluster(1, 2).apply([BrokerRegistered(1, UUID(int=77), "elsewhere", 1234, "rack")])
    moved = image.brokers[1]
    assert (moved.incarnation, moved.host, moved.port, moved.rack) == (
        UUID(int=77),
        "elsewhere",
        1234,
        "rack",
    )
    assert image.brokers[2].host == "host-2"


def test_a_new_topic_is_led_by_its_first_replicas_and_all_are_in_sync() -> None:
    topic = cluster(1, 2, records=[created("orders", [1, 2], [2, 1], retention="1")]).topics["orders"]
    assert [(each.leader, each.in_sync, each.leader_epoch) for each in topic.partitions] == [
        (1, (1, 2), 0),
        (2, (2, 1), 0),
    ]
    assert topic.configs == {"retention": "1"}


def test_a_topic_is_found_by_name_and_id_until_it_is_deleted() -> None:
    image = cluster(1, records=[created("orders", [1])])
    assert image.topic_by_id(topic_id(1)) is image.topics["orders"]
    gone = image.apply([TopicDeleted(topic_id(1))])
    assert (dict(gone.topics), dict(gone.topic_names)) == ({}, {})


def test_a_name_can_be_used_again() -> None:
    first = created("orders", [1], [1])
    image = cluster(1, records=[first, TopicDeleted(topic_id(1)), created("orders", [1], number=2)])
    assert image.topics["orders"].topic_id == topic_id(2)
    assert image.topic_by_id(topic_id(1)) is None


def test_partitions_are_added_behind_the_others() -> None:
    image = cluster(1, 2, records=[created("orders", [1])])
    grown = image.apply([PartitionsAdded(topic_id(1), [[2], [1]])])
    assert [each.leader for each in grown.topics["orders"].partitions] == [1, 2, 1]
    assert image.topics["orders"].partitions == grown.topics["orders"].partitions[:1]


def test_settings_of_topics() -> None:
    image = cluster(1, records=[created("orders", [1], a="1", b="2")])
    changed = image.apply([TopicConfigChanged(topic_id(1), {"a": None, "b": "3", "c": "4", "d": None})])
    assert changed.topics["orders"].configs == {"b": "3", "c": "4"}
    assert image.topics["orders"].configs == {"a": "1", "b": "2"}


def test_settings_of_brokers() -> None:
    image = cluster(1).apply([BrokerConfigChanged("", {"x": "1"}), BrokerConfigChanged("1", {"x": "2"})])
    assert image.broker_configs == {"": {"x": "1"}, "1": {"x": "2"}}
    later = image.apply([BrokerConfigChanged("1", {"x": None, "y": "3"})])
    assert later.broker_configs == {"": {"x": "1"}, "1": {"y": "3"}}
    assert image.broker_configs["1"] == {"x": "2"}


@pytest.mark.parametrize(
    "record",
    [
        ClusterFounded("another"),
        created("orders", [1], number=2),
        PartitionsAdded(topic_id(9), [[1]]),
        TopicDeleted(topic_id(9)),
        TopicConfigChanged(topic_id(9), {}),
    ],
)
def test_records_that_cannot_be(record: MetadataRecord) -> None:
    with pytest.raises(InvariantViolation):
        cluster(1, records=[created("orders", [1])]).apply([record])


STEPS: list[MetadataRecord] = [
    ClusterFounded("c"),
    BrokerRegistered(1, UUID(int=1), "h", 1),
    created("orders", [1], a="1"),
    PartitionsAdded(topic_id(1), [[1], [1]]),
    created("bills", [1], number=2),
    BrokerConfigChanged("", {"x": "1"}),
    TopicConfigChanged(topic_id(2), {"b": "2"}),
    TopicDeleted(topic_id(1)),
    created("orders", [1], number=3),
    BrokerRegistered(2, UUID(int=2), "h", 2),
    TopicConfigChanged(topic_id(3), {"b": None}),
]


@given(cuts=st.lists(st.integers(0, len(STEPS)), max_size=5).map(sorted))
def test_replaying_in_any_batches_gives_the_same_image(cuts: list[int]) -> None:
    image = ClusterImage()
    pictures: list[tuple[ClusterImage, ClusterImage]] = []
    for start, end in zip([0, *cuts], [*cuts, len(STEPS)], strict=True):
        pictures.append((image, ClusterImage().apply(STEPS[:start])))
        image = image.apply(STEPS[start:end])
    assert image == ClusterImage().apply(STEPS)
    # A request that is being answered keeps what it saw, whatever was applied since.
    assert all(kept == fresh for kept, fresh in pictures)
