"""What DescribeConfigs tells clients: every setting, its value, and where the value came from.

Pure translation of the tables and of what ``BrokerConfig`` remembers. ``synonyms`` lists everything that
could have given the value, the one that did first: that is how a client shows that ``retention.ms`` comes
from the broker's ``log.retention.hours``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig, broker_setting
from tidelog.config.group import GROUP_SETTINGS, GroupConfig
from tidelog.config.kinds import ConfigType
from tidelog.config.modes import DEFAULTS
from tidelog.config.per_listener import PREFIX, name_of
from tidelog.config.table import Setting
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig


class ConfigSource(IntEnum):
    """Kafka's codes for where a value comes from."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    GROUP_CONFIG = 8


class SettingSynonym(NamedTuple):
    """One place that could give a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    name: str
    value: str | None  # None where Kafka shows null: not set, or too secret to show.
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[SettingSynonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(overrides: Mapping[str, str], broker: BrokerConfig) -> list[DescribedSetting]:
    """All settings of a topic with these overrides on this broker."""
    config = TopicConfig.resolve(overrides, broker)
    by_mode = DEFAULTS[config.replication_mode]
    described = []
    for setting in TOPIC_SETTINGS.values():
        value = setting.format(getattr(config, setting.attribute))
        # What the topic's mode decides, no broker-wide setting does.
        names = [] if setting.name in by_mode else [synonym.name for synonym in setting.synonyms]
        synonyms = tuple(_given(names, broker))
        if setting.name in overrides:
            own = SettingSynonym(setting.name, value, ConfigSource.TOPIC_CONFIG)
            synonyms = (own, *synonyms)
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def describe_group(overrides: Mapping[str, str], broker: BrokerConfig) -> list[DescribedSetting]:
    """All settings of a group with these overrides."""
    config = GroupConfig.resolve(overrides, broker)
    described = []
    for setting in GROUP_SETTINGS.values():
        value = setting.format(getattr(config, setting.attribute))
        synonyms = tuple(_given([synonym.name for synonym in setting.synonyms], broker))
        if setting.name in overrides:
            synonyms = (SettingSynonym(setting.name, value, ConfigSource.GROUP_CONFIG), *synonyms)
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def describe_broker(
    static_values: Mapping[str, str],
    dynamic_values: Mapping[str, str],
    dynamic_defaults: Mapping[str, str] | None = None,
) -> list[DescribedSetting]:
    """All settings of a broker with these values; ``BrokerConfig`` keeps each of them under the same name."""
    broker = BrokerConfig.parse(static_values).with_dynamic(dynamic_values, dynamic_defaults)
    described = []
    for setting in BROKER_SETTINGS.values():
        synonyms = tuple(_given([setting.name], broker))
        # What was given, not what follows from it: advertised.listeners stays null while listeners decides.
        value = synonyms[0].value if synonyms else None
        described.append(_described(setting, value, synonyms, read_only=not setting.dynamic))
    for listener, values in broker.listener_values.items():
        for setting in BROKER_SETTINGS.values():
            if setting.attribute in values:
                name = name_of(listener, setting)
                # As in Kafka, what counts without a value of its own is the second synonym.
                given = tuple(_given([name, setting.name], broker))
                described.append(
                    _described(setting, given[0].value, given, read_only=not setting.dynamic, name=name)
                )
    return described


def _described(
    setting: Setting,
    value: str | None,
    synonyms: tuple[SettingSynonym, ...],
    *,
    read_only: bool,
    name: str = "",
) -> DescribedSetting:
    sensitive = setting.secret
    return DescribedSetting(
        name=name or setting.name,
        value=None if sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        sensitive=sensitive,
        type=setting.kind.type,
        documentation=setting.doc,
        synonyms=tuple(one._replace(value=None) for one in synonyms) if sensitive else synonyms,
    )


def _given(names: list[str], broker: BrokerConfig) -> Iterator[SettingSynonym]:
    """Everything that gives one of these broker settings a value, the strongest first.

    By level, then by name: only the first name of a chain can be dynamic, so this is also the order in which
    the value is chosen.
    """
    levels = (
        (broker.dynamic_values, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.dynamic_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.static_values, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for values, source in levels:
        for name in names:
            if name in values:
                yield SettingSynonym(name, values[name], source)
    for name in names:
        default = broker_setting(name).default_text
        if default is not None and not name.startswith(PREFIX):
            yield SettingSynonym(name, default, ConfigSource.DEFAULT_CONFIG)
