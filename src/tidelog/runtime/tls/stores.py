"""Reads key and trust stores, in PEM and in PKCS12, and gives PEM back. Java's JKS is refused with advice.

PKCS12 needs the package ``cryptography``; PEM does not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.config import BrokerConfig
from tidelog.config.tls_table import PKCS12
from tidelog.errors import InvalidConfig

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.S)
_JKS = b"\xfe\xed\xfe\xed"


class Stores(NamedTuple):
    """What a listener needs, in PEM. Empty: not given."""

    chain: bytes  # the own certificate, then those of its issuers
    key: bytes
    key_password: str
    trusted: bytes

    def __repr__(self) -> str:
        return f"Stores({len(self.chain)} bytes of certificates)"


def stores_of(config: BrokerConfig, directory: Path) -> Stores:
    """Read what the settings name; ``InvalidConfig`` says what is wrong. Paths start at ``directory``."""
    chain, key, key_password = _key_store(config, directory)
    return Stores(chain, key, key_password, _trust_store(config, directory))


def paths_of(config: BrokerConfig, directory: Path) -> tuple[Path, ...]:
    """The files that :func:`stores_of` reads."""
    named = (config.ssl_keystore_location, config.ssl_truststore_location)
    return tuple(directory / path for path in named if path)


def _key_store(config: BrokerConfig, directory: Path) -> tuple[bytes, bytes, str]:
    if config.ssl_keystore_certificate_chain is not None or config.ssl_keystore_key is not None:
        if config.ssl_keystore_location:
            raise InvalidConfig("ssl.keystore.location and ssl.keystore.certificate.chain are both set.")
        chain = (config.ssl_keystore_certificate_chain or "").encode()
        key = str.__str__(config.ssl_keystore_key or "").encode()
        return (
            *_parts_of("ssl.keystore.certificate.chain", chain + b"\n" + key),
            config.ssl_key_password or "",
        )
    if not config.ssl_keystore_location:
        return b"", b"", ""
    data = _read("ssl.keystore.location", directory / config.ssl_keystore_location)
    if config.ssl_keystore_type == PKCS12:
        return (*_open_pkcs12("ssl.keystore.location", data, config.ssl_keystore_password), "")
    return (*_parts_of("ssl.keystore.location", data), config.ssl_key_password or "")


def _trust_store(config: BrokerConfig, directory: Path) -> bytes:
    if config.ssl_truststore_certificates is not None:
        if config.ssl_truststore_location:
            raise InvalidConfig("ssl.truststore.location and ssl.truststore.certificates are both set.")
        return _certificates_of("ssl.truststore.certificates", config.ssl_truststore_certificates.encode())
    if not config.ssl_truststore_location:
        return b""
    data = _read("ssl.truststore.location", directory / config.ssl_truststore_location)
    if config.ssl_truststore_type == PKCS12:
        return _pkcs12_certificates("ssl.truststore.location", data, config.ssl_truststore_password)
    return _certificates_of("ssl.truststore.location", data)


def _read(setting: str, path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{setting}: {path} cannot be read: {error.strerror}.") from None
    if data.startswith(_JKS):
        raise InvalidConfig(
            f"{setting}: {path} is a Java key store. Convert it with keytool -importkeystore "
            "-deststoretype PKCS12, and set the type PKCS12."
        )
    return data


def _parts_of(setting: str, data: bytes) -> tuple[bytes, bytes]:
    chain = _certificates_of(setting, data)
    key = _KEY.search(data)
    if key is None:
        raise InvalidConfig(f"{setting}: there is no private key in it. PEM has it after the certificates.")
    return chain, key[0] + b"\n"


def _certificates_of(setting: str, data: bytes) -> bytes:
    found = _CERTIFICATE.findall(data)
    if not found:
        raise InvalidConfig(f"{setting}: there is no certificate in it. Is it PKCS12? Then set the type.")
    return b"\n".join(found) + b"\n"


def _pkcs12(setting: str, data: bytes, password: str | None) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise InvalidConfig(
            f"{setting}: PKCS12 needs the package cryptography, which tidelog[tls] installs."
        ) from None
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError as error:
        raise InvalidConfig(f"{setting}: it cannot be opened: {error}.") from None


def _open_pkcs12(setting: str, data: bytes, password: str | None) -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives import serialization

    store = _pkcs12(setting, data, password)
    if store.key is None or store.cert is None:
        raise InvalidConfig(f"{setting}: there is no private key with its certificate in it.")
    pem = serialization.Encoding.PEM
    chain = [store.cert, *store.additional_certs]
    key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return b"".join(each.certificate.public_bytes(pem) for each in chain), key


def _pkcs12_certificates(setting: str, data: bytes, password: str | None) -> bytes:
    store = _pkcs12(setting, data, password)
    from cryptography.hazmat.primitives import serialization

    found = [each for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise InvalidConfig(f"{setting}: there is no certificate in it.")
    return b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in found)
