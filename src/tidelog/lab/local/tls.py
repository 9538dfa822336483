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
_MODULES = "org.apache.kafka.common.security.scram.ScramLoginModule required"
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


def client_tls(directory: Path) -> TlsSettings:
    """What clients trust and show."""
    tls = directory.absolute() / DIRECTORY
    store = str(tls / f"{CLIENT}.pem")
    return TlsSettings(trusted_path=str(tls / CA_CERTIFICATE), chain_path=store, key_path=store)


def client_security(directory: Path) -> Security:
    """How clients connect to the cluster in a directory."""
    return Security(client_tls(directory)) if has_tls(directory) else Security()


def write_client_file(directory: Path, bootstrap: str) -> Path:
    """For every Java client, Kafka's tools, and the commands. Paths in it are absolute."""
    tls = directory.absolute() / DIRECTORY
    heading = (
        "# Written by each start of this cluster. For clients with librdkafka:\n"
        f"# security.protocol=ssl ssl.ca.location={tls / CA_CERTIFICATE}\n"
        f"# ssl.certificate.location={tls / CLIENT}.crt ssl.key.location={tls / CLIENT}.key\n"
    )
    path = directory / CLIENT_FILE
    write_properties_file(path, bootstrap, Security(client_tls(directory)), heading)
    return path


def write_properties_file(path: Path, bootstrap: str, security: Security, heading: str = "") -> None:
    """The file of a client in Java's words; it may have a password."""
    tls, sasl = security
    transport = "PLAINTEXT" if tls is None else PROTOCOL
    values = {
        "bootstrap.servers": bootstrap,
        "security.protocol": transport if sasl is None else f"SASL_{transport}",
    }
    for store, location in (("truststore", tls and tls.trusted_path), ("keystore", tls and tls.chain_path)):
        if location:
            values |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": location}
    if sasl is not None:
        module = f'{_MODULES} username="{_quoted(sasl.username)}" password="{_quoted(sasl.password)}";'
        values |= {"sasl.mechanism": sasl.mechanism, "sasl.jaas.config": module}
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.touch(mode=0o600)
    part.write_text(heading + write_properties(values), encoding="utf-8")
    part.replace(path)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
