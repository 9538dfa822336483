"""Contexts of OpenSSL, made of settings and stores: for one listener, and for connections to other nodes.

What does not depend on settings: no compression, no renegotiation, no resumption with TLS 1.3 (each
connection shows its certificate), and for TLS 1.2 only cipher suites with forward secrecy that authenticate
what they encrypt.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.config import BrokerConfig
from tidelog.config.tls_table import REQUESTED, REQUIRED, TLS_1_2, TLS_1_3
from tidelog.errors import InvalidConfig
from tidelog.runtime.tls.stores import Stores

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERSIONS = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {REQUIRED: ssl.CERT_REQUIRED, REQUESTED: ssl.CERT_OPTIONAL}


def server_context(config: BrokerConfig, stores: Stores) -> ssl.SSLContext:
    """For a listener; ``config`` has its own settings in place."""
    if not stores.chain:
        raise InvalidConfig(
            "a TLS listener needs a certificate: set ssl.keystore.location, or "
            "ssl.keystore.certificate.chain and ssl.keystore.key."
        )
    context = _context(ssl.PROTOCOL_TLS_SERVER, config, stores)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.verify_mode = _CLIENT_AUTH.get(config.ssl_client_auth, ssl.CERT_NONE)
    if context.verify_mode is not ssl.CERT_NONE and not stores.trusted:
        # Everybody with a certificate of any authority of the system would be let in.
        raise InvalidConfig(
            f"ssl.client.auth={config.ssl_client_auth} needs the authorities of the clients: set "
            "ssl.truststore.location or ssl.truststore.certificates."
        )
    return context


def client_context(config: BrokerConfig, stores: Stores) -> ssl.SSLContext:
    """For connections to other nodes; ``config`` has the settings of the listener between nodes in place."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, config, stores)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    if not stores.trusted:
        context.load_default_certs()
    return context


def _context(protocol: int, config: BrokerConfig, stores: Stores) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    versions = sorted(_VERSIONS[name] for name in config.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        context.set_ciphers(":".join(config.ssl_cipher_suites) or CIPHERS)
    except ssl.SSLError:
        told = ",".join(config.ssl_cipher_suites)
        raise InvalidConfig(f"ssl.cipher.suites={told} is refused: OpenSSL knows none of them.") from None
    if stores.chain:
        _load_key(context, stores)
    if stores.trusted:
        try:
            context.load_verify_locations(cadata=stores.trusted.decode("ascii", "replace"))
        except ssl.SSLError as error:
            raise InvalidConfig(f"the trust store is not valid: {_reason(error)}.") from None
    return context


def _load_key(context: ssl.SSLContext, stores: Stores) -> None:
    with _as_file(stores.chain + stores.key) as path:
        try:
            # Without a function, OpenSSL would ask for the password at the terminal.
            context.load_cert_chain(path, password=lambda: stores.key_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise InvalidConfig(f"the certificate and its key are not valid: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the private key is not that of the certificate"
        return str(error.reason).lower().replace("_", " ")
    return str(error) or "it cannot be read"


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Python gives OpenSSL keys only by files. On Linux this one is in memory, without a name."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as temporary:  # Readable by this account only.
            temporary.write(data)
            temporary.flush()
            yield temporary.name
        return
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
