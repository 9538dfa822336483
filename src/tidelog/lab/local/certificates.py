"""A small certificate authority for test clusters: its own certificate, and those of brokers and clients.

Not for production: the key of the authority lies beside the certificates, without a password, and nothing is
ever revoked. Needs the package ``cryptography``. Keys are of the curve P-256: a handshake takes a third of
the time that RSA takes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.errors import TidelogError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

CA_CERTIFICATE, CA_KEY = "ca.pem", "ca.key"
CA_NAME = "Tidelog test authority"
DAYS = 365
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_BEFORE = timedelta(minutes=5)  # Clocks of several machines differ.


class Issued(NamedTuple):
    """A certificate and its key."""

    name: str
    pem: Path  # certificate, the authority's certificate, and key in one file, as Kafka wants it
    certificate: Path
    key: Path


def _cryptography() -> Any:
    try:
        import cryptography.x509
    except ImportError:
        raise TidelogError(
            "Certificates are made with cryptography, which is not installed: pip install 'tidelog[tls]'."
        ) from None
    return cryptography.x509


class Authority:
    """Reads or makes the authority of a directory."""

    def __init__(self, directory: Path, *, name: str = CA_NAME, days: int = DAYS * 10) -> None:
        self.directory = directory
        self.certificate_path = directory / CA_CERTIFICATE
        self._key_path = directory / CA_KEY
        _cryptography()
        self._key: EllipticCurvePrivateKey
        self._certificate: Certificate
        if self.certificate_path.exists() and self._key_path.exists():
            self._read()
        else:
            self._make(name, days)

    def _read(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        x509 = _cryptography()
        try:
            key = load_pem_private_key(self._key_path.read_bytes(), None)
            self._certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        except (ValueError, TypeError) as error:
            raise TidelogError(f"the authority in {self.directory} cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TidelogError(f"the authority in {self.directory} was not made by this command")
        self._key = key

    def _make(self, name: str, days: int) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        x509 = _cryptography()
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        builder = (
            _builder(subject, subject, self._key.public_key(), _until(days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self._certificate = _signed(builder, self._key)
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(self._key_path, _pem_of_key(self._key))
        _write(self.certificate_path, _pem(self._certificate), mode=0o644)

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = (),
        *,
        days: int = DAYS,
        until: datetime | None = None,
        password: str = "",
    ) -> Issued:
        """A certificate for ``CN=name``. ``hosts``: names and addresses under which others connect to it; a
        client needs none. ``until`` instead of ``days``: when it expires. With ``password`` there is a PKCS12
        file, too.
        """
        from cryptography.hazmat.primitives.asymmetric import ec

        x509 = _cryptography()
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            purposes.insert(0, x509.oid.ExtendedKeyUsageOID.SERVER_AUTH)
        end = until or _until(days)
        builder = (
            _builder(_subject(name), self._certificate.subject, key.public_key(), end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = _signed(builder, self._key)
        issued = Issued(name, *(self.directory / f"{name}{suffix}" for suffix in (".pem", ".crt", ".key")))
        chain, secret = _pem(certificate) + _pem(self._certificate), _pem_of_key(key)
        _write(issued.certificate, chain, mode=0o644)
        _write(issued.key, secret)
        _write(issued.pem, chain + secret)
        if password:
            _write(
                self.directory / f"{name}.p12", _pkcs12(name, key, certificate, self._certificate, password)
            )
        return issued

    def trust_store(self, password: str) -> Path:
        """The authority's certificate as a PKCS12 trust store, for Java."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        data = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self._certificate, b"ca")],
            serialization.BestAvailableEncryption(password.encode()),
        )
        path = self.directory / "ca.p12"
        _write(path, data, mode=0o644)
        return path


def _subject(name: str) -> Any:
    x509 = _cryptography()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def _until(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _builder(subject: Any, issuer: Any, public: Any, until: datetime) -> Any:
    x509 = _cryptography()
    since = min(datetime.now(UTC), until - _BEFORE) - _BEFORE
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )


def _key_usage(*, authority: bool) -> Any:
    return _cryptography().KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: Any, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives import hashes

    signed: Certificate = builder.sign(key, hashes.SHA256())
    return signed


def _host(name: str) -> Any:
    x509 = _cryptography()
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _pkcs12(
    name: str, key: EllipticCurvePrivateKey, certificate: Certificate, issuer: Certificate, password: str
) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [issuer], encryption)


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A new file in the place of an old one, never one that others can read in between."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
