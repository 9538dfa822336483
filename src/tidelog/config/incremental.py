"""Incremental changes to settings, as IncrementalAlterConfigs asks for them.

Turns the overrides of a topic or a broker plus a list of changes into new overrides. It does not check
them: the caller does, with ``check_topic_overrides`` and ``check_dynamic_broker``, before storing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.kinds import ConfigType, split_list
from tidelog.config.table import Setting, shown
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig, topic_setting
from tidelog.errors import InvalidConfig, InvalidRequest


class AlterOperation(IntEnum):
    """Kafka's codes for what to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterOp(NamedTuple):
    name: str
    operation: int  # An ``AlterOperation``; anything else is refused.
    value: str | None  # None only for DELETE.


def apply_incremental(
    current: Mapping[str, str],
    ops: Iterable[tuple[str, int, str | None]],
    *,
    setting_of: Callable[[str], Setting] = topic_setting,
    config: BrokerConfig | None = None,
) -> dict[str, str]:
    """The overrides after all ``ops``. ``setting_of`` finds the row of a name: of a topic, broker or group.

    A list that is not overridden yet starts from what it is by ``config``, else from its default.
    """
    changed = dict(current)
    seen: set[str] = set()
    for name, operation, value in ops:
        if name in seen:
            raise InvalidRequest(f"{shown(name)} is changed twice in one request.")
        seen.add(name)
        if operation == AlterOperation.DELETE:
            # Nothing to check: an override that this version no longer knows must be removable, too.
            changed.pop(name, None)
        elif value is None:
            raise InvalidRequest(f"{shown(name)} has no value.")
        elif operation == AlterOperation.SET:
            changed[name] = value
        elif operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            changed[name] = _change_list(
                _list_setting(setting_of(name), operation), operation, value, changed.get(name), config
            )
        else:
            raise InvalidRequest(f"{shown(name)}: unknown operation {operation}.")
    return changed


def _change_list(
    setting: Setting, operation: int, value: str, override: str | None, config: BrokerConfig | None
) -> str:
    words = split_list(_inherited(setting, config) if override is None else override)
    changes = split_list(value)
    if operation == AlterOperation.SUBTRACT:
        return ",".join(word for word in words if word not in changes)
    return ",".join([*words, *(word for word in dict.fromkeys(changes) if word not in words)])


def _list_setting(setting: Setting, operation: int) -> Setting:
    if setting.kind.type is not ConfigType.LIST:
        operated = AlterOperation(operation).name
        raise InvalidConfig(f"{operated} is refused for {setting.name}: it is not a list.")
    return setting


def _inherited(setting: Setting, config: BrokerConfig | None) -> str:
    if config is None:
        return setting.default_text or ""
    holder = TopicConfig.resolve({}, config) if setting.name in TOPIC_SETTINGS else config
    return setting.format(getattr(holder, setting.attribute)) or ""
