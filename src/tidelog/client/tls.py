"""TLS around a connected socket, with certificates in PEM."""

import socket
import ssl
import tempfile

from tidelog.client.settings import TlsSettings


def wrapped(sock: socket.socket, host: str, tls: TlsSettings) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=tls.trusted_path, cadata=tls.trusted)
    context.check_hostname = tls.check_host
    if tls.chain is not None:
        # OpenSSL reads own certificates only from files.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write("\n".join(filter(None, (tls.key, tls.chain))))
            file.flush()
            context.load_cert_chain(file.name, password=tls.key_password)
    elif tls.chain_path is not None:
        context.load_cert_chain(tls.chain_path, tls.key_path, tls.key_password)
    return context.wrap_socket(sock, server_hostname=host)
