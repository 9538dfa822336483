"""Addresses a broker listens on and tells clients to use: ``NAME://host:port``, several separated by commas.

Owns the notation and its rules; opens no socket and resolves no name. An empty host means every interface.
Port 0 means any free port: the caller that binds it knows the number, and puts it into the advertised
listener with ``at``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config.kinds import ConfigType, ExplainedError, Kind, Raw, split_list
from tidelog.config.table import shown

_LISTENER = re.compile(r"([A-Za-z][A-Za-z0-9_]*)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]*):([0-9]{1,5})")
_NEEDS_SECURITY = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


class Listener(NamedTuple):
    """One address, served in plain text. ``name`` tells listeners for different purposes apart."""

    name: str
    host: str  # Without brackets; "" is every interface.
    port: int  # 0 is any free port.

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def every_interface(self) -> bool:
        """Clients cannot connect *to* such an address: an advertised listener needs a host name."""
        return self.host in _EVERY_INTERFACE

    def at(self, *, host: str | None = None, port: int | None = None) -> Listener:
        """The same listener under the host or port that became known when it was bound."""
        return Listener(self.name, self.host if host is None else host, self.port if port is None else port)

    @classmethod
    def parse(cls, text: str) -> Listener:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match[3]) > 65535:
            raise ExplainedError(f"{shown(text)} is not NAME://host:port, such as PLAINTEXT://127.0.0.1:9092")
        name = match[1].upper()
        if name in _NEEDS_SECURITY:
            raise ExplainedError(
                f"{name} needs encryption or authentication, which Tidelog does not have yet"
            )
        return cls(name, match[2].strip("[]"), int(match[3]))


class Listeners(Kind[tuple[Listener, ...]]):
    """One or more listeners whose names and addresses differ."""

    type = ConfigType.LIST
    allowed = "one or more NAME://host:port, separated by commas, such as PLAINTEXT://127.0.0.1:9092"

    def __init__(self, *, advertised: bool = False) -> None:
        self._advertised = advertised

    def parse(self, raw: Raw) -> tuple[Listener, ...]:
        listeners = tuple(Listener.parse(text) for text in split_list(raw))
        if not listeners:
            raise ValueError(raw)
        _refuse_twice("name", [listener.name for listener in listeners])
        if self._advertised:
            for listener in listeners:
                if listener.every_interface:
                    raise ExplainedError(
                        f"clients cannot connect to {listener}; use a host name that they can resolve"
                    )
        else:
            _refuse_twice("address", [f"{one.host}:{one.port}" for one in listeners if one.port])
        return listeners

    def format(self, value: tuple[Listener, ...]) -> str | None:
        return ",".join(map(str, value)) or None


def _refuse_twice(what: str, values: Sequence[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ExplainedError(f"two listeners have the {what} {value}")
