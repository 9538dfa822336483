"""How to reach a cluster: addresses, TLS, SASL and timeouts. Values only: callers parse their own options."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM, each as text or as the path of a file; None: the system's default."""

    trusted: str | None = None
    trusted_path: str | None = None
    chain: str | None = None
    key: str | None = None
    chain_path: str | None = None
    key_path: str | None = None
    key_password: str | None = None
    check_host: bool = True

    def __repr__(self) -> str:
        # Keys and their passwords may be among them.
        return f"TlsSettings({self.trusted_path}, {self.chain_path})"


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from; hashable, because a process keeps them by this."""

    token_url: str = ""  # of the provider; file: a file that has the token
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()  # for the broker, such as logicalCluster
    subject: str | None = None  # of a token without a signature: for trials only

    def __repr__(self) -> str:
        return f"OAuthSettings({self.token_url}, {self.client_id})"


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanism: str
    username: str
    password: str
    oauth: OAuthSettings | None = None  # of the mechanism OAUTHBEARER

    def __repr__(self) -> str:
        # Settings end up in logs and error messages.
        return f"SaslSettings({self.mechanism}, {self.username})"


class Security(NamedTuple):
    """How connections are encrypted and authenticated, for those who know the addresses by themselves."""

    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


OPEN = Security()
"""PLAINTEXT, without authentication."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach a cluster. Picklable: executors get it with their task."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "tidelog"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100

    @property
    def protocol(self) -> str:
        """As ``security.protocol`` names it."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.sasl is None else f"SASL_{transport}"


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """``host:port,host:port`` as pairs; ValueError names the invalid part. The Java client accepts
    ``PLAINTEXT://host:port``, too.
    """
    found = []
    for part in (part.strip() for part in text.split(",")):
        host, colon, port = part.rpartition(":")
        host = host.rpartition("//")[2]
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"'{part}' is not an address like 127.0.0.1:9092")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)
