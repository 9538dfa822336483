"""Addresses a broker listens on and tells clients to use: ``NAME://host:port``, several separated by commas.

Owns the notation and its rules; opens no socket and resolves no name. An empty host means every interface.
Port 0 means any free port: the caller that binds it knows the number, and puts it into the advertised
listener with ``at``. A listener's name says what it is for; its protocol, which the name gives unless
``listener.security.protocol.map`` does, says whether it encrypts and authenticates.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.kinds import ConfigType, ExplainedError, Kind, Raw, split_list
from tidelog.config.table import shown

_LISTENER = re.compile(r"([A-Za-z][A-Za-z0-9_]*)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]*):([0-9]{1,5})")
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*)\s*:\s*([A-Za-z_]+)")
_EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


class SecurityProtocol(IntEnum):
    """What a listener's connections begin with, with Kafka's codes."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def encrypts(self) -> bool:
        """Whether connections are TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Listener(NamedTuple):
    """One address. ``name`` tells listeners for different purposes apart."""

    name: str
    host: str  # Without brackets; "" is every interface.
    port: int  # 0 is any free port.
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def every_interface(self) -> bool:
        """Clients cannot connect *to* such an address: an advertised listener needs a host name."""
        return self.host in _EVERY_INTERFACE

    @property
    def loopback(self) -> bool:
        """Whether only processes of this machine reach it. A name other than localhost may mean anything."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def at(self, *, host: str | None = None, port: int | None = None) -> Listener:
        """The same listener under the host or port that became known when it was bound."""
        return self._replace(
            host=self.host if host is None else host, port=self.port if port is None else port
        )

    @classmethod
    def parse(cls, text: str) -> Listener:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match[3]) > 65535:
            raise ExplainedError(f"{shown(text)} is not NAME://host:port, such as PLAINTEXT://127.0.0.1:9092")
        name = match[1].upper()
        protocol = SecurityProtocol.__members__.get(name, SecurityProtocol.PLAINTEXT)
        return cls(name, match[2].strip("[]"), int(match[3]), protocol)


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


ProtocolsByName = tuple[tuple[str, SecurityProtocol], ...]


class ProtocolMap(Kind[ProtocolsByName]):
    """The protocol of each listener, by its name."""

    type = ConfigType.STRING
    allowed = "one or more NAME:PROTOCOL, separated by commas, such as CLIENTS:SASL_SSL,BROKERS:SSL"

    def parse(self, raw: Raw) -> ProtocolsByName:
        pairs = tuple(_protocol_of(text) for text in split_list(raw))
        if not pairs:
            raise ValueError(raw)
        _refuse_twice("name", [name for name, _ in pairs])
        return pairs

    def format(self, value: ProtocolsByName) -> str | None:
        return ",".join(f"{name}:{protocol.name}" for name, protocol in value) or None


def _protocol_of(text: str) -> tuple[str, SecurityProtocol]:
    match = _PAIR.fullmatch(text)
    if match is None:
        raise ValueError(text)
    protocol = SecurityProtocol.__members__.get(match[2].upper())
    if protocol is None:
        known = ", ".join(SecurityProtocol.__members__)
        raise ExplainedError(f"{shown(match[2])} is no security protocol; there are {known}")
    return match[1].upper(), protocol


def _refuse_twice(what: str, values: Sequence[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ExplainedError(f"two listeners have the {what} {value}")
