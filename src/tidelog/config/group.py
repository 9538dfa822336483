"""The settings that a group may have of its own: those of the consumer protocol.

A group without a value has the broker's. A group's values must lie within the broker's bounds
(``group.consumer.min.…``, ``group.consumer.max.…``), because they are changed by those who run the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.config.broker import BrokerConfig
from tidelog.config.kinds import Whole
from tidelog.config.table import Setting, Synonym, attribute_of, refuse, refuse_unknown, row, settings_of


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Typed values of all settings of a group. Make one with ``resolve``."""

    consumer_session_timeout_ms: int = row(
        Whole(1, unit="ms"),
        45_000,
        "A member that sends no heartbeat for this time loses its partitions.",
        synonyms=(Synonym("group.consumer.session.timeout.ms"),),
    )
    consumer_heartbeat_interval_ms: int = row(
        Whole(1, unit="ms"),
        5_000,
        "Heartbeat interval of the members.",
        synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """A value outside of bounds that were changed later counts as the nearest allowed one."""
        values = {}
        for name, setting in GROUP_SETTINGS.items():
            if name in overrides:
                low, high = _bounds(name, broker)
                values[setting.attribute] = max(low, min(setting.parse(overrides[name]), high))
            else:
                values[setting.attribute] = getattr(broker, setting.synonyms[0].attribute)
        return cls(**values)


GROUP_SETTINGS: Mapping[str, Setting] = settings_of(GroupConfig)

_ELSEWHERE = {
    setting.synonyms[0].name: f"for a group it is called {name}" for name, setting in GROUP_SETTINGS.items()
}


def group_setting(name: str) -> Setting:
    """The row of a group setting; refuses a name that is none."""
    setting = GROUP_SETTINGS.get(name)
    if setting is None:
        refuse_unknown(name, "group", GROUP_SETTINGS, _ELSEWHERE)
    return setting


def check_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    for name, text in overrides.items():
        value = group_setting(name).parse(text)
        low, high = _bounds(name, broker)
        if not low <= value <= high:
            refuse(
                name,
                text,
                f"from {low} to {high}, by {_bound_name(name, 'min')} and {_bound_name(name, 'max')}",
            )
    config = GroupConfig.resolve(overrides, broker)
    if overrides and config.consumer_session_timeout_ms <= config.consumer_heartbeat_interval_ms:
        session_ms, interval_ms = config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms
        longer = f"longer than consumer.heartbeat.interval.ms, which is {interval_ms}"
        refuse("consumer.session.timeout.ms", session_ms, longer)


def _bounds(name: str, broker: BrokerConfig) -> tuple[int, int]:
    low, high = (getattr(broker, attribute_of(_bound_name(name, bound))) for bound in ("min", "max"))
    return low, high


def _bound_name(name: str, bound: str) -> str:
    """consumer.session.timeout.ms has the bound group.consumer.min.session.timeout.ms."""
    protocol, _, rest = name.partition(".")
    return f"group.{protocol}.{bound}.{rest}"
