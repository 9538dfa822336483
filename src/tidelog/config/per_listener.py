"""Settings of one listener: ``listener.name.<name>.<setting>``, as in Kafka.

Owns their names, and which value counts for a listener: its own, else the setting without the prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.config.table import Setting

PREFIX = "listener.name."


class Scoped(NamedTuple):
    """A setting's name, taken apart."""

    listener: str  # In capitals, as listeners are named here; "" for all of them.
    name: str  # of the setting, without the prefix


def scoped(name: str) -> Scoped:
    if not name.startswith(PREFIX):
        return Scoped("", name)
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    return Scoped(listener.upper(), rest)


def name_of(listener: str, setting: Setting) -> str:
    """The name of a setting for one listener. Kafka wants the listener's name in small letters."""
    return f"{PREFIX}{listener.lower()}.{setting.name}" if listener else setting.name


ListenerValues = Mapping[str, Mapping[str, Any]]
"""Typed values of single listeners: listener → attribute → value."""
