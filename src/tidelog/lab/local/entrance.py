"""How clients get into a cluster that tests start: TLS, users with passwords, both or neither.

Owns the certificates and the file of users in the cluster's directory, and the settings of brokers that
follow. With users, clients authenticate with SCRAM-SHA-256; with TLS alone, by a certificate.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog.client.settings import OPEN, SaslSettings, Security
from tidelog.lab.local import tls as local_tls

OURS = "tidelog-testing"
"""The user as which the cluster is looked at, where there are users: one for ``super.users``."""

MECHANISM = "SCRAM-SHA-256"
_USERS = "users"


class Entrance:
    def __init__(self, directory: Path, *, tls: bool = False, users: Mapping[str, str] | None = None) -> None:
        """``users``: their passwords; None: clients do not log in."""
        self._directory = directory
        self._tls = tls
        self._users = None if users is None else {OURS: secrets.token_urlsafe(18), **users}
        if self._users is not None:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = directory / _USERS
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.writelines(f"{name}:{password}\n" for name, password in self._users.items())

    @property
    def protocol(self) -> str:
        transport = "SSL" if self._tls else "PLAINTEXT"
        return transport if self._users is None else f"SASL_{transport}"

    def broker_settings(self, number: int, host: str, port: int) -> dict[str, str | int | Sequence[str]]:
        """Nothing, if the cluster is open."""
        settings: dict[str, str | int | Sequence[str]] = {}
        if self._tls:
            local_tls.make_certificates(self._directory, [number], [host])
            settings |= local_tls.broker_settings(number, self._directory.absolute() / local_tls.DIRECTORY)
        if self._users is not None:
            settings |= {"sasl.users.file": str(self._directory.absolute() / _USERS)}
            settings |= {"ssl.client.auth": "none"} if self._tls else {}
        return settings | {"listeners": f"{self.protocol}://{host}:{port}"} if settings else {}

    def security(self, user: str | None = None) -> Security:
        """Of a client that is this user; None: as which the cluster is looked at."""
        if not self._tls and self._users is None:
            return OPEN
        tls = local_tls.client_tls(self._directory) if self._tls else None
        if self._users is None:
            return Security(tls)
        name = user or OURS
        return Security(tls, SaslSettings(MECHANISM, name, self._users[name]))
