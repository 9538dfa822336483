"""The rows of TLS: certificates, what is asked of the other side, and limits of handshakes. Each may be given
for one listener, as ``listener.name.<name>.`` and the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.config.broker_table import BrokerTable
from tidelog.config.kinds import (
    Choice,
    ChoiceSet,
    Kind,
    Nullable,
    Password,
    Text,
    Whole,
    Words,
)
from tidelog.config.table import row

TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
NONE, REQUESTED, REQUIRED = "none", "requested", "required"
PEM, PKCS12 = "PEM", "PKCS12"


def _tls(kind: Kind[Any], default: Any, doc: str, **more: Any) -> Any:
    return row(kind, default, doc, per_listener=True, **more)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TlsTable(BrokerTable):
    """Everything that can be set about TLS."""

    ssl_keystore_location: str | None = _tls(
        Nullable(Text("a path")),
        None,
        "File with the certificate of this broker, its chain and its private key. A relative path starts at "
        "the config file's directory. A file that changes is read again without a restart.",
        unset="`ssl.keystore.certificate.chain` and `ssl.keystore.key` are used",
        section="TLS",
    )
    ssl_keystore_type: str = _tls(
        Choice(PEM, PKCS12), PEM, "Format of the key store. Java's JKS has to be converted to PKCS12."
    )
    ssl_keystore_password: str | None = _tls(
        Nullable(Password()), None, "Password of a PKCS12 key store.", unset="no password"
    )
    ssl_key_password: str | None = _tls(
        Nullable(Password()), None, "Password of an encrypted private key in PEM.", unset="no password"
    )
    ssl_keystore_certificate_chain: str | None = _tls(
        Nullable(Text("PEM", r"(?s).+")),
        None,
        "The certificate of this broker and its chain, as PEM in the setting itself.",
        unset="the file is used",
    )
    ssl_keystore_key: str | None = _tls(
        Nullable(Password()),
        None,
        "The private key, as PEM in the setting itself.",
        unset="the file is used",
    )
    ssl_truststore_location: str | None = _tls(
        Nullable(Text("a path")),
        None,
        "File with the certificates of the authorities whose certificates are accepted, from clients and "
        "from other brokers. A file that changes is read again without a restart.",
        unset="`ssl.truststore.certificates` is used",
    )
    ssl_truststore_type: str = _tls(Choice(PEM, PKCS12), PEM, "Format of the trust store.")
    ssl_truststore_password: str | None = _tls(
        Nullable(Password()), None, "Password of a PKCS12 trust store.", unset="no password"
    )
    ssl_truststore_certificates: str | None = _tls(
        Nullable(Text("PEM", r"(?s).+")),
        None,
        "Certificates of the trusted authorities, as PEM in the setting itself.",
        unset="the file is used",
    )
    ssl_client_auth: str = _tls(
        Choice(REQUIRED, REQUESTED, NONE),
        NONE,
        "Whether clients of a TLS listener need a certificate of their own, may have one, or are not asked. "
        "With SSL, the certificate says who the client is.",
    )
    ssl_principal_mapping_rules: str = _tls(
        Text("DEFAULT, or rules such as RULE:^CN=([^,]+).*$/$1/"),
        "DEFAULT",
        "How the name of a client follows from the subject of its certificate: the first rule that matches "
        "decides, DEFAULT is the whole subject.",
    )
    ssl_enabled_protocols: frozenset[str] = _tls(
        ChoiceSet(TLS_1_2, TLS_1_3), frozenset((TLS_1_2, TLS_1_3)), "Versions of TLS that are accepted."
    )
    ssl_cipher_suites: tuple[str, ...] = _tls(
        Words("names of cipher suites as OpenSSL spells them, separated by commas"),
        (),
        "Cipher suites of TLS 1.2. Those of TLS 1.3 cannot be chosen.",
        unset="those of OpenSSL that have forward secrecy and authenticate what they encrypt",
    )
    ssl_endpoint_identification_algorithm: str = _tls(
        Choice("https", ""),
        "https",
        "Whether this broker checks that the certificate of another broker names the host that it connects "
        "to. Empty is off.",
    )
    ssl_handshake_timeout_ms: int = _tls(
        Whole(100, 600_000, unit="ms"),
        10_000,
        "A connection whose TLS handshake is not complete after this time is closed.",
        ours=True,
    )
    ssl_handshakes_max: int = _tls(
        Whole(1, 1_000_000),
        1000,
        "Largest number of TLS handshakes in progress at one listener. Each further one replaces the "
        "oldest that waits for its client.",
        ours=True,
    )
