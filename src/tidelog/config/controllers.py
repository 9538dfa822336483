"""How a node is told which controllers there are: ``id@host:port``, several separated by commas.

Owns the notation; resolves no name. The list is where a node begins to ask: as soon as the metadata log says
who votes, the log is right.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.config.kinds import ConfigType, ExplainedError, Kind, Raw, split_list
from tidelog.config.table import shown

_VOTER = re.compile(r"([0-9]{1,10})@(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

BROKER_ROLE, CONTROLLER_ROLE = "broker", "controller"


class QuorumVoter(NamedTuple):
    node_id: int
    host: str  # Without brackets.
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_id}@{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> QuorumVoter:
        match = _VOTER.fullmatch(text)
        if match is None or not 0 < int(match[3]) <= 65535 or int(match[1]) >= 2**31:
            raise ExplainedError(f"{shown(text)} is not id@host:port, such as 1@127.0.0.1:9092")
        return cls(int(match[1]), match[2].strip("[]"), int(match[3]))


class QuorumVoters(Kind[tuple[QuorumVoter, ...]]):
    """Controllers with different numbers and addresses."""

    type = ConfigType.LIST
    allowed = "one or more id@host:port, separated by commas, such as 1@host1:9092,2@host2:9092,3@host3:9092"
    noun = "controller"

    def parse(self, raw: Raw) -> tuple[QuorumVoter, ...]:
        voters = tuple(QuorumVoter.parse(text) for text in split_list(raw))
        if not voters:
            raise ValueError(raw)
        for voter in voters:
            if sum(other.node_id == voter.node_id for other in voters) > 1:
                raise ExplainedError(f"{self.noun} {voter.node_id} is listed twice")
            if sum(other[1:] == voter[1:] for other in voters) > 1:
                raise ExplainedError(f"two {self.noun}s have the address {voter.host}:{voter.port}")
        return voters

    def format(self, value: tuple[QuorumVoter, ...]) -> str | None:
        return ",".join(map(str, value)) or None


class NodeAddresses(QuorumVoters):
    """Nodes with different numbers and addresses, each where this node connects to it."""

    allowed = "one or more id@host:port, separated by commas, such as 2@127.0.0.1:5002,3@127.0.0.1:5003"
    noun = "node"


class ListenerName(Kind[str]):
    type = ConfigType.STRING
    allowed = "the name of a listener"

    def parse(self, raw: Raw) -> str:
        if not isinstance(raw, str) or not _NAME.fullmatch(raw.strip()):
            raise ValueError(raw)
        return raw.strip().upper()

    def format(self, value: str) -> str:
        return value


class ListenerNames(Kind[tuple[str, ...]]):
    type = ConfigType.LIST
    allowed = "one or more names of listeners, separated by commas"

    def parse(self, raw: Raw) -> tuple[str, ...]:
        names = split_list(raw)
        if not names or not all(_NAME.fullmatch(name) for name in names):
            raise ValueError(raw)
        return tuple(name.upper() for name in names)

    def format(self, value: tuple[str, ...]) -> str | None:
        return ",".join(value) or None
