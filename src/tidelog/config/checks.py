"""Checks of what clients ask for: a topic's overrides, a running broker's settings, incremental changes to either.

Each refusal is an ``InvalidConfig`` that names the setting, the value and what is allowed. What is allowed but
probably not meant comes back as warnings, one plain sentence each.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.broker import broker_setting
from tidelog.config.topic import topic_setting
from tidelog.errors import InvalidConfig


def check_topic_overrides(overrides: Mapping[str, str], replicas: int | None) -> list[str]:
    """Refuse overrides that cannot be; return warnings about those that can. ``replicas`` where known."""
    for name, text in overrides.items():
        topic_setting(name).parse(text)
    return []


def check_dynamic_broker(overrides: Mapping[str, str]) -> None:
    """Refuse values that a running broker cannot take on."""
    for name, text in overrides.items():
        setting = broker_setting(name)
        if not setting.dynamic:
            raise InvalidConfig(
                f"{name} cannot change while the broker runs: set it in the config file and restart the broker."
            )
        setting.parse(text)
