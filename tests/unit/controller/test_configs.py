"""Changing settings: wanted overrides in, the difference out."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import BrokerConfig
from tidelog.controller import configs
from tidelog.controller.availability import DRAIN_SETTING
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.records import (
    BrokerConfigChanged,
    GroupConfigChanged,
    MetadataRecord,
    TopicConfigChanged,
)
from tidelog.controller.rules import Rulebook
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import cluster, created, fence, topic_id, unfence

NAMES = ["retention.ms", "retention.bytes", "flush.messages", "segment.bytes"]
overrides = st.dictionaries(st.sampled_from(NAMES), st.integers(14, 99).map(str))


def change_topic(image: ClusterImage, name: str, wanted: Mapping[str, str]) -> TopicConfigChanged:
    """Where nothing follows for the partitions."""
    records = configs.change_topic(image, name, wanted, Rulebook(BrokerConfig.parse({})))
    (record,) = records
    assert isinstance(record, TopicConfigChanged)
    return record


def change_broker(image: ClusterImage, broker: str, wanted: Mapping[str, str]) -> BrokerConfigChanged:
    (record,) = configs.change_broker(image, broker, wanted, Rulebook(BrokerConfig.parse({})))
    assert isinstance(record, BrokerConfigChanged)
    return record


def test_a_groups_settings_are_changed_and_removed() -> None:
    broker, name = BrokerConfig.parse({}), "consumer.session.timeout.ms"
    image = cluster(1)
    image = image.apply(configs.change_group(image, "readers", {name: "50000"}, broker))
    assert image.group_configs == {"readers": {name: "50000"}}
    (record,) = configs.change_group(image, "readers", {}, broker)
    assert record == GroupConfigChanged("readers", {name: None})
    assert image.apply([record]).group_configs == {}


@pytest.mark.parametrize(
    ("group", "name", "value", "why"),
    [
        ("", "consumer.session.timeout.ms", "50000", "need its name"),
        ("g", "consumer.session.timeout.ms", "44999", "from 45000 to 60000"),
        ("g", "retention.ms", "1", "Unknown group setting"),
    ],
)
def test_settings_of_groups_that_are_refused(group: str, name: str, value: str, why: str) -> None:
    with pytest.raises(TidelogError, match=why):
        configs.change_group(cluster(1), group, {name: value}, BrokerConfig.parse({}))


def with_topic(configs: Mapping[str, str], replicas: int = 1) -> ClusterImage:
    image = cluster(1, 2, records=[created("orders", list(range(1, replicas + 1)))])
    return image.apply([TopicConfigChanged(topic_id(1), dict(configs))])


@given(current=overrides, wanted=overrides)
def test_afterwards_the_overrides_are_what_was_wanted(
    current: dict[str, str], wanted: dict[str, str]
) -> None:
    image = with_topic(current)
    record = change_topic(image, "orders", wanted)
    assert image.apply([record]).topics["orders"].configs == wanted
    untouched = {name for name in NAMES if current.get(name) == wanted.get(name)}
    assert not untouched & set(record.changes)


@given(current=overrides)
def test_wanting_what_is_changes_nothing(current: dict[str, str]) -> None:
    assert change_topic(with_topic(current), "orders", current).changes == {}


@pytest.mark.parametrize(
    ("name", "wanted", "code"),
    [
        ("unknown", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", {"no.such.setting": "1"}, ErrorCode.INVALID_CONFIG),
        ("orders", {"retention.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ("orders", {"min.insync.replicas": "2"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_refusals_of_topics(name: str, wanted: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(TidelogError) as refusal:
        change_topic(with_topic({}), name, wanted)
    assert refusal.value.code is code


def test_the_number_of_replicas_bounds_what_is_allowed() -> None:
    record = change_topic(with_topic({}, replicas=2), "orders", {"min.insync.replicas": "2"})
    assert record.changes == {"min.insync.replicas": "2"}


@pytest.mark.parametrize("broker", ["", "1"])
def test_brokers(broker: str) -> None:
    image = cluster(1)
    record = change_broker(image, broker, {"log.retention.ms": "5"})
    assert record == BrokerConfigChanged(broker, {"log.retention.ms": "5"})
    image = image.apply([record])
    assert change_broker(image, broker, {}).changes == {"log.retention.ms": None}


@pytest.mark.parametrize("wanted", [{"node.id": "2"}, {"no.such": "1"}, {"log.retention.ms": "x"}])
def test_refusals_of_brokers(wanted: dict[str, str]) -> None:
    with pytest.raises(TidelogError) as refusal:
        change_broker(cluster(1), "1", wanted)
    assert refusal.value.code is ErrorCode.INVALID_CONFIG


def test_a_broker_that_does_not_exist() -> None:
    with pytest.raises(TidelogError) as refusal:
        change_broker(cluster(1), "2", {})
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["min.insync.replicas", "unclean.leader.election.enable"])
def test_what_decides_elections_is_the_same_on_all_brokers(name: str) -> None:
    value = "true" if "enable" in name else "1"
    with pytest.raises(TidelogError) as refusal:
        change_broker(cluster(1), "1", {name: value})
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
    assert change_broker(cluster(1), "", {name: value}).changes == {name: value}


class TestWhatFollows:
    rules = Rulebook(BrokerConfig.parse({"min.insync.replicas": 2}))

    def image(self, *fenced: int) -> ClusterImage:
        image = cluster(1, 2, 3, records=[created("orders", [1, 2, 3])])
        for broker in fenced:
            image = image.apply(fence(image, broker, self.rules.at(image)))
        return image

    def topic(self, image: ClusterImage, **wanted: str) -> PartitionImage:
        settings = {name.replace("_", "."): value for name, value in wanted.items()}
        return self._applied(image, configs.change_topic(image, "orders", settings, self.rules))

    def broker(self, image: ClusterImage, broker: str, wanted: dict[str, str]) -> PartitionImage:
        return self._applied(image, configs.change_broker(image, broker, wanted, self.rules))

    def _applied(self, image: ClusterImage, records: list[MetadataRecord]) -> PartitionImage:
        return image.apply(records).topics["orders"].partitions[0]

    def test_a_smaller_minimum_ends_what_former_members_were_good_for(self) -> None:
        image = self.image(1, 2)
        assert image.topics["orders"].partitions[0].eligible == (2,)
        assert self.topic(image, min_insync_replicas="1").eligible == ()
        assert self.broker(image, "", {"min.insync.replicas": "1"}).eligible == ()

    def test_the_minimum_of_all_brokers_counts_from_its_record_on(self) -> None:
        image = self.image()
        image = image.apply(configs.change_broker(image, "", {"min.insync.replicas": "1"}, self.rules))
        for broker in (1, 2):
            image = image.apply(fence(image, broker, self.rules.at(image)))
        assert image.topics["orders"].partitions[0].eligible == ()

    def test_a_partition_that_waits_gets_a_leader_when_it_may_be_an_unclean_one(self) -> None:
        image = self.image(1, 2, 3)
        image = image.apply(unfence(image, 1, self.rules.at(image)))
        assert image.topics["orders"].partitions[0].leader == -1
        after = self.topic(image, unclean_leader_election_enable="true")
        assert (after.leader, after.unclean_epoch) == (1, after.leader_epoch)

    def test_a_drained_broker_gives_up_what_it_leads(self) -> None:
        after = self.broker(self.image(), "1", {DRAIN_SETTING: "true"})
        assert (after.leader, after.in_sync) == (2, (1, 2, 3))
