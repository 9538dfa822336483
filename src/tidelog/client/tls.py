"""TLS around a connected socket, with certificates in PEM; what is wrong with it, in one sentence."""

import socket
import ssl
import tempfile

from tidelog.client.errors import ClientError, UnlikelyResponse
from tidelog.client.settings import TlsSettings


class CertificateRefused(ClientError):
    """A certificate is not accepted, here or there; a retry will not help."""


def wrapped(sock: socket.socket, host: str, tls: TlsSettings) -> ssl.SSLSocket:
    try:
        return context(tls).wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise CertificateRefused(
            f"The certificate of the broker at {host} is not accepted: {error.verify_message}; "
            "kafka.ssl.truststore.location names the certificates to trust."
        ) from None
    except ssl.SSLError as error:
        raise UnlikelyResponse(
            f"{host} does not answer with TLS, as a listener does that expects no TLS: {error.reason}"
        ) from None


def context(tls: TlsSettings) -> ssl.SSLContext:
    """ssl.SSLError or OSError, if certificates or key are not valid."""
    made = ssl.create_default_context(cafile=tls.trusted_path, cadata=tls.trusted)
    made.check_hostname = tls.check_host
    password = tls.key_password or ""  # None would ask at the terminal.
    if tls.chain is not None:
        # OpenSSL reads own certificates only from files.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write("\n".join(filter(None, (tls.key, tls.chain))))
            file.flush()
            made.load_cert_chain(file.name, password=password)
    elif tls.chain_path is not None:
        made.load_cert_chain(tls.chain_path, tls.key_path, password)
    return made
