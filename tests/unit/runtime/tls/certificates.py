"""Certificates for tests, made once per session."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.config.kinds import Raw
from tidelog.lab.local.certificates import Authority, Issued

PASSWORD = "a password of tests"


class Made(NamedTuple):
    directory: Path
    authority: Authority
    broker: Issued  # for localhost and 127.0.0.1
    elsewhere: Issued  # for another host
    expired: Issued  # of a client
    client: Issued
    stranger: Issued  # of another authority

    def settings(self, **more: Raw) -> dict[str, Raw]:
        return {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.location": str(self.broker.pem),
            "ssl.truststore.location": str(self.authority.certificate_path),
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def config(self, **more: Raw) -> BrokerConfig:
        return BrokerConfig.parse(self.settings(**more))


def make(directory: Path) -> Made:
    authority = Authority(directory)
    other = Authority(directory / "other", name="Another authority")
    return Made(
        directory,
        authority,
        authority.issue("broker", ("localhost", "127.0.0.1"), password=PASSWORD),
        authority.issue("elsewhere", ("elsewhere.example.org",)),
        authority.issue("expired", until=datetime.now(UTC) - timedelta(days=1)),
        authority.issue("client", password=PASSWORD),
        other.issue("stranger"),
    )
