"""Settings that a group may have of its own."""

import pytest

from tidelog.config import (
    BrokerConfig,
    ConfigSource,
    GroupConfig,
    check_group_overrides,
    describe_group,
)
from tidelog.errors import InvalidConfig

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
DEFAULTS = BrokerConfig.parse({})


def test_a_group_without_values_has_the_brokers() -> None:
    broker = BrokerConfig.parse({"group.consumer.session.timeout.ms": 3000})
    assert GroupConfig.resolve({}, broker) == GroupConfig(3000, 5000)


def test_bounds_that_were_changed_later_count() -> None:
    narrow = BrokerConfig.parse({"group.consumer.max.session.timeout.ms": 50_000})
    check_group_overrides({SESSION: "60000"}, DEFAULTS)
    assert GroupConfig.resolve({SESSION: "60000"}, narrow).consumer_session_timeout_ms == 50_000


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({SESSION: "44999"}, r"from 45000 to 60000, by group\.consumer\.min\.session\.timeout\.ms and"),
        ({SESSION: "60001"}, "from 45000 to 60000"),
        ({INTERVAL: "4999"}, "from 5000 to 15000"),
        ({SESSION: "soon"}, "whole number"),
        ({"group." + SESSION: "50000"}, f"for a group it is called {SESSION}"),
        ({"consumer.session.timeout": "50000"}, f"Did you mean {SESSION}"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        check_group_overrides(overrides, DEFAULTS)


def test_a_session_is_longer_than_the_heartbeat_interval() -> None:
    broker = BrokerConfig.parse({"group.consumer.min.session.timeout.ms": 1000})
    check_group_overrides({SESSION: "5001"}, broker)
    with pytest.raises(InvalidConfig, match=r"longer than consumer\.heartbeat\.interval\.ms, which is 5000"):
        check_group_overrides({SESSION: "5000"}, broker)


def test_where_a_value_comes_from() -> None:
    broker = BrokerConfig.parse({"group.consumer.session.timeout.ms": 46_000})
    session, interval = describe_group({SESSION: "50000"}, broker)
    assert (session.name, session.value, session.source) == (SESSION, "50000", ConfigSource.GROUP_CONFIG)
    sources = [ConfigSource.GROUP_CONFIG, ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG]
    assert [each.source for each in session.synonyms] == sources
    assert (interval.value, interval.source) == ("5000", ConfigSource.DEFAULT_CONFIG)
