"""Descriptions of settings: values, and where they come from."""

import pytest

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    DescribedSetting,
    describe_broker,
    describe_topic,
)
from tidelog.config.kinds import Raw


def one(described: list[DescribedSetting], name: str) -> DescribedSetting:
    (found,) = [setting for setting in described if setting.name == name]
    return found


def test_every_setting_of_a_topic_is_described() -> None:
    described = describe_topic({}, BrokerConfig.parse({}))
    assert [setting.name for setting in described] == list(TOPIC_SETTINGS)
    assert all(setting.is_default and not setting.read_only for setting in described)


def test_an_untouched_topic_setting() -> None:
    described = one(describe_topic({}, BrokerConfig.parse({})), "retention.ms")
    assert described.value == "604800000"
    assert described.source == 5
    assert described.type is ConfigType.LONG
    assert described.synonyms == (("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),)
    assert described.documentation.startswith("How long records are kept")


def test_every_level_that_could_give_a_value_is_listed_strongest_first() -> None:
    broker = BrokerConfig.parse({"log.retention.minutes": 3, "log.retention.ms": 4})
    broker = broker.with_dynamic({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    described = one(describe_topic({"retention.ms": "007"}, broker), "retention.ms")
    assert (described.value, described.source) == ("7", ConfigSource.TOPIC_CONFIG)
    assert [tuple(synonym) for synonym in described.synonyms] == [
        ("retention.ms", "7", 1),
        ("log.retention.ms", "5", 2),
        ("log.retention.ms", "6", 3),
        ("log.retention.ms", "4", 4),
        ("log.retention.minutes", "3", 4),
        ("log.retention.hours", "168", 5),
    ]


@pytest.mark.parametrize(
    ("static", "dynamic", "value", "source"),
    [
        ({"log.retention.hours": 1}, {}, "3600000", ConfigSource.STATIC_BROKER_CONFIG),
        ({"log.retention.hours": 1}, {"log.retention.ms": "9"}, "9", ConfigSource.DYNAMIC_BROKER_CONFIG),
        (
            {"log.retention.hours": 1, "log.retention.minutes": 1},
            {},
            "60000",
            ConfigSource.STATIC_BROKER_CONFIG,
        ),
    ],
)
def test_an_inherited_value_and_its_source(
    static: dict[str, Raw], dynamic: dict[str, str], value: str, source: ConfigSource
) -> None:
    described = one(describe_topic({}, BrokerConfig.parse(static).with_dynamic(dynamic)), "retention.ms")
    assert (described.value, described.source) == (value, source)
    assert not described.is_default


def test_every_setting_of_a_broker_is_described() -> None:
    described = describe_broker({}, {})
    assert [setting.name for setting in described] == list(BROKER_SETTINGS)
    assert all(setting.is_default for setting in described)
    assert one(described, "log.retention.ms").value is None
    assert one(described, "advertised.listeners").value is None
    assert one(described, "listeners").value == "PLAINTEXT://127.0.0.1:9092"
    assert one(described, "listeners").read_only
    assert not one(described, "log.retention.ms").read_only


def test_a_broker_setting_on_all_levels() -> None:
    described = one(
        describe_broker({"max.connections": "1"}, {"max.connections": "2"}, {"max.connections": "3"}),
        "max.connections",
    )
    assert (described.value, described.source, described.is_default) == ("2", 2, False)
    assert [(synonym.value, int(synonym.source)) for synonym in described.synonyms] == [
        ("2", 2),
        ("3", 3),
        ("1", 4),
        ("2147483647", 5),
    ]


def test_what_a_broker_remembers_describes_it() -> None:
    broker = BrokerConfig.parse({"broker.id": 8}).with_dynamic({"num.partitions": "3"})
    described = describe_broker(broker.static_values, broker.dynamic_values, broker.dynamic_defaults)
    assert one(described, "node.id").value == "8"
    assert one(described, "num.partitions").value == "3"
