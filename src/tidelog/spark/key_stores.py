"""Key stores and trust stores in ``kafka.ssl.*``: PEM and PKCS12, in files; PEM also as text.

Owns the conversion of PKCS12 to PEM text, on the driver: executors get certificates and keys with their task
and need no file. Java's own format, JKS, needs Java, so there is one sentence that says how to convert it.
"""

import importlib
from dataclasses import replace
from pathlib import Path

from tidelog.client.settings import TlsSettings
from tidelog.spark.options import OptionError, Options

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
_JKS_MAGIC = b"\xfe\xed\xfe\xed"


def tls_settings(options: Options) -> TlsSettings:
    keystore = options.text("kafka.ssl.keystore.location")
    tls = TlsSettings(
        trusted=options.text("kafka.ssl.truststore.certificates"),
        trusted_path=options.text("kafka.ssl.truststore.location") or options.text("kafka.ssl.ca.location"),
        chain=options.text("kafka.ssl.keystore.certificate.chain"),
        key=options.text("kafka.ssl.keystore.key"),
        chain_path=keystore or options.text("kafka.ssl.certificate.location"),
        key_path=keystore or options.text("kafka.ssl.key.location"),
        key_password=options.text("kafka.ssl.key.password"),
        check_host=options.text("kafka.ssl.endpoint.identification.algorithm", "https") == "https",
    )
    if _kind(options, "truststore") == PKCS12:
        _, certificates = _opened(options, "truststore")
        tls = replace(tls, trusted="".join(certificates), trusted_path=None)
    if _kind(options, "keystore") == PKCS12:
        key, certificates = _opened(options, "keystore")
        chain = "".join(certificates)
        tls = replace(tls, key=key, chain=chain, chain_path=None, key_path=None, key_password=None)
    return tls


def _kind(options: Options, store: str) -> str:
    """As the option says, or as the file looks: Java's own stores are told apart like that, too."""
    option = f"kafka.ssl.{store}.type"
    location = options.text(f"kafka.ssl.{store}.location")
    given = options.text(option)
    if given is None and location is not None:
        given = _looks_like(_content(location, store))
    kind = (given or PEM).upper()
    if kind == JKS:
        raise OptionError(
            f"Option {option} is JKS, which only Java reads: convert the store with keytool -importkeystore "
            f"-srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12, and set {option}=PKCS12."
        )
    if kind not in (PEM, PKCS12):
        raise OptionError(f"Option {option} is {given}; allowed: PEM, PKCS12.")
    if kind == PKCS12 and location is None:
        raise OptionError(f"Option kafka.ssl.{store}.location is missing; a PKCS12 store is a file.")
    return kind


def _looks_like(content: bytes) -> str:
    if content.startswith(_JKS_MAGIC):
        return JKS
    return PKCS12 if content[:1] == b"\x30" else PEM


def _content(location: str, store: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise OptionError(
            f"Option kafka.ssl.{store}.location is {location!r}, which cannot be read: {error.strerror}."
        ) from None


def _opened(options: Options, store: str) -> tuple[str | None, list[str]]:
    """Key and certificates as PEM; the key's own certificate comes first."""
    location = options.required(f"kafka.ssl.{store}.location", "/etc/kafka/store.p12")
    password = options.text(f"kafka.ssl.{store}.password")
    try:
        pkcs12 = importlib.import_module("cryptography.hazmat.primitives.serialization.pkcs12")
        forms = importlib.import_module("cryptography.hazmat.primitives.serialization")
    except ImportError:
        raise OptionError(
            f"Option kafka.ssl.{store}.type is PKCS12, which needs the package cryptography: "
            "pip install cryptography, or convert the store with openssl pkcs12 -nodes to PEM."
        ) from None
    content = _content(location, store)
    try:
        found = pkcs12.load_pkcs12(content, password.encode() if password is not None else None)
    except ValueError:
        raise OptionError(
            f"Option kafka.ssl.{store}.password does not open {location}, or that is no PKCS12 store."
        ) from None
    certificates = [found.cert, *found.additional_certs] if found.cert else list(found.additional_certs)
    texts = [one.certificate.public_bytes(forms.Encoding.PEM).decode() for one in certificates]
    if found.key is None:
        if store == "keystore":
            raise OptionError(f"Option kafka.ssl.keystore.location is {location!r}, which has no key.")
        return None, texts
    key = found.key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    ).decode()
    return key, texts
