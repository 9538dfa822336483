"""A cluster of this machine with TLS everywhere: its certificates, its brokers' settings, its clients' file.

Owns ``DIR/tls/`` (an authority, a certificate for each broker and one for clients) and
``DIR/client.properties``. Every connection is encrypted, and both ends show a certificate: a node is
``User:broker-N``, a client is ``User:client``.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidelog.client.properties import write_properties
from tidelog.client.settings import Security, TlsSettings
from tidelog.lab.local.certificates import CA_CERTIFICATE, CA_KEY, LOCAL_HOSTS, Authority

DIRECTORY, CLIENT = "tls", "client"
CLIENT_FILE = "client.properties"
PROTOCOL = "SSL"
NAMES = "RULE:^CN=([^,]+).*$/$1/"
_RENEWED_BEFORE = timedelta(days=30)  # the end of a certificate


def has_tls(directory: Path) -> bool:
    """Whether an earlier start of the cluster in this directory made certificates."""
    return (directory / DIRECTORY / CA_KEY).exists() and (directory / CLIENT_FILE).exists()


def make_certificates(directory: Path, brokers: Iterable[int], hosts: Iterable[str] = ()) -> None:
    """Those that are missing, and those that end soon. ``hosts``: more names and addresses of the brokers."""
    authority = Authority(directory / DIRECTORY)
    wanted = [(broker_name(number), (*LOCAL_HOSTS, *hosts)) for number in brokers]
    for name, addresses in [*wanted, (CLIENT, ())]:
        if not _is_good(authority.directory / f"{name}.pem"):
            authority.issue(name, addresses)


def _is_good(path: Path) -> bool:
    from cryptography.x509 import load_pem_x509_certificate

    if not path.exists():
        return False
    try:
        certificate = load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        return False
    return certificate.not_valid_after_utc - datetime.now(UTC) > _RENEWED_BEFORE


def broker_name(number: int) -> str:
    """What the certificate of a broker says; the setting for the principals of nodes has it as default."""
    return f"broker-{number}"


def broker_settings(number: int, tls: Path) -> dict[str, str]:
    """``tls``: the directory of the certificates as the broker finds it."""
    return {
        "ssl.keystore.location": str(tls / f"{broker_name(number)}.pem"),
        "ssl.truststore.location": str(tls / CA_CERTIFICATE),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": NAMES,
    }


def client_security(directory: Path) -> Security:
    """How clients connect to the cluster in a directory."""
    if not has_tls(directory):
        return Security()
    tls = directory / DIRECTORY
    store = str(tls / f"{CLIENT}.pem")
    return Security(
        TlsSettings(trusted_path=str(tls / CA_CERTIFICATE), chain_path=store, key_path=store), None
    )


def write_client_file(directory: Path, bootstrap: str) -> Path:
    """For every Java client, Kafka's tools, and the commands. Paths in it are absolute."""
    tls = directory.absolute() / DIRECTORY
    values = {
        "bootstrap.servers": bootstrap,
        "security.protocol": PROTOCOL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls / CA_CERTIFICATE),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls / f"{CLIENT}.pem"),
    }
    heading = (
        "# Written by each start of this cluster. For clients with librdkafka:\n"
        f"# security.protocol=ssl ssl.ca.location={tls / CA_CERTIFICATE}\n"
        f"# ssl.certificate.location={tls / CLIENT}.crt ssl.key.location={tls / CLIENT}.key\n"
    )
    path = directory / CLIENT_FILE
    part = path.with_name(f".{CLIENT_FILE}.{os.getpid()}")
    part.touch(mode=0o600)
    part.write_text(heading + write_properties(values), encoding="utf-8")
    part.replace(path)
    return path
