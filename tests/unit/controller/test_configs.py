"""Changing settings: wanted overrides in, the difference out."""

from collections.abc import Mapping

import pytest
from clusters import cluster, created, topic_id
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.configs import change_broker, change_topic
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import BrokerConfigChanged, TopicConfigChanged
from tidelog.errors import ErrorCode, TidelogError

NAMES = ["retention.ms", "retention.bytes", "flush.messages", "segment.bytes"]
overrides = st.dictionaries(st.sampled_from(NAMES), st.integers(14, 99).map(str))


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
