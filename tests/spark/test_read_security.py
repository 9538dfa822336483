"""The client's side of TLS and SASL, against a broker behind a door that asks for them: it speaks TLS, asks
who is there, and lets what follows through. And against a cluster that does so itself.
"""

import hashlib
import hmac
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClusterUnreachable
from tidelog.client.sasl import AuthenticationFailed
from tidelog.client.tls import CertificateRefused
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import Options
from tidelog.testing import running_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER, PASSWORD = "ann", "s3, cret="
SALT, ROUNDS = b"0123456789abcdef", 4096


class Door:
    """Takes one connection after the other, each in a thread."""

    def __init__(self, broker: str, mechanism: str | None, context: ssl.SSLContext | None) -> None:
        host, port = broker.split(":")
        self._broker = (host, int(port))
        self._mechanism = mechanism
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._enter, args=(client,), daemon=True).start()

    def _enter(self, client: socket.socket) -> None:
        try:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            if self._mechanism is not None and not self._authenticated(client):
                client.close()
                return
        except OSError:
            client.close()
            return
        broker = socket.create_connection(self._broker)
        threading.Thread(target=self._pass, args=(client, broker, False), daemon=True).start()
        self._pass(broker, client, True)

    def _pass(self, source: socket.socket, target: socket.socket, back: bool) -> None:
        """The broker's own address becomes the door's, or the client would go past it."""
        own, theirs = self.port.to_bytes(4, "big"), self._broker[1].to_bytes(4, "big")
        try:
            while data := source.recv(1 << 16):
                target.sendall(data.replace(b"127.0.0.1" + theirs, b"127.0.0.1" + own) if back else data)
        except OSError:
            pass
        target.close()

    def _authenticated(self, client: socket.socket) -> bool:
        api, body, answer = self._request(client)
        if api != 17:
            return False
        (size,) = struct.unpack_from(">h", body)
        known = body[2 : 2 + size].decode() == self._mechanism
        answer(struct.pack(">hi", 0 if known else 33, 0))
        if not known:
            return False
        if self._mechanism == "PLAIN":
            _, body, answer = self._request(client)
            good = body[4:] == f"\0{USER}\0{PASSWORD}".encode()
            return self._judge(good, b"", answer)
        return self._scram(
            client, {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[self._mechanism or ""]
        )

    def _scram(self, client: socket.socket, algorithm: str) -> bool:
        """The server's half of RFC 5802."""

        def mac(key: bytes, data: bytes) -> bytes:
            return hmac.new(key, data, algorithm).digest()

        _, body, answer = self._request(client)
        bare = body[4:].removeprefix(b"n,,")
        nonce = bare.rpartition(b"r=")[2] + b"theirs"
        challenge = b"r=%s,s=%s,i=%d" % (nonce, b64encode(SALT), ROUNDS)
        self._judge(True, challenge, answer)
        _, body, answer = self._request(client)
        unproven, _, proof = body[4:].rpartition(b",p=")
        signed = bare + b"," + challenge + b"," + unproven
        salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), SALT, ROUNDS)
        stored = hashlib.new(algorithm, mac(salted, b"Client Key")).digest()
        mixed = zip(b64decode(proof), mac(stored, signed), strict=True)
        key = bytes(one ^ other for one, other in mixed)
        good = hashlib.new(algorithm, key).digest() == stored
        return self._judge(good, b"v=" + b64encode(mac(mac(salted, b"Server Key"), signed)), answer)

    def _judge(self, good: bool, token: bytes, answer: Callable[[bytes], None]) -> bool:
        reason = b"\xff\xff" if good else b"\x00\x0bgo away now"
        answer(struct.pack(">h", 0 if good else 58) + reason + struct.pack(">i", len(token)) + token)
        return good

    def _request(self, client: socket.socket) -> tuple[int, bytes, Callable[[bytes], None]]:
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL if self._context is None else 0))
        frame = b""
        while len(frame) < size:
            frame += client.recv(size - len(frame))
        api, _version, correlation_id, length = struct.unpack_from(">hhih", frame)

        def answer(body: bytes) -> None:
            client.sendall(struct.pack(">ii", 4 + len(body), correlation_id) + body)

        return api, frame[10 + length :], answer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of 127.0.0.1 in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is not installed")
    directory = tmp_path_factory.mktemp("tls")
    key, cert, both = directory / "key.pem", directory / "cert.pem", directory / "both.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    both.write_text(key.read_text() + cert.read_text())
    return both


@pytest.fixture
def door(bootstrap: str) -> Iterator[Callable[..., int]]:
    doors: list[Door] = []

    def build(mechanism: str | None = None, certificate: Path | None = None) -> int:
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        doors.append(Door(bootstrap, mechanism, context))
        return doors[-1].port

    yield build
    for one in doors:
        one.close()


def topics(port: int, **settings: str) -> int:
    options = {"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
    options |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    with Cluster(client_settings(Options(options)), patience_ms=300) as cluster:
        return len(cluster.known_topics(None))


def jaas(password: str = PASSWORD) -> str:
    return f'org.example.LoginModule required username="{USER}" password="{password}";'


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_knows_the_password_comes_in(
    door: Callable[..., int], create_topic: Callable[..., str], mechanism: str
) -> None:
    create_topic()
    port = door(mechanism)
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    assert topics(port, **given, sasl_jaas_config=jaas()) > 0
    with pytest.raises(AuthenticationFailed, match="rejected the user 'ann': go away now"):
        topics(port, **given, sasl_username=USER, sasl_password="wrong")


def test_a_mechanism_that_the_broker_does_not_know(door: Callable[..., int]) -> None:
    with pytest.raises(AuthenticationFailed, match="does not support the SASL mechanism PLAIN"):
        topics(door("SCRAM-SHA-256"), security_protocol="SASL_PLAINTEXT", sasl_jaas_config=jaas())


def test_tls(door: Callable[..., int], create_topic: Callable[..., str], certificate: Path) -> None:
    create_topic()
    port = door(None, certificate)
    trusted = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(certificate)}
    assert topics(port, security_protocol="SSL", **trusted) > 0
    text = certificate.read_text().partition("-----BEGIN CERT")
    pem = "".join(text[1:])
    assert topics(port, security_protocol="SSL", ssl_truststore_certificates=pem) > 0
    with pytest.raises(CertificateRefused, match="is not accepted: self-signed certificate; "):
        topics(port, security_protocol="SSL")


def test_a_password_behind_tls(
    door: Callable[..., int], create_topic: Callable[..., str], certificate: Path
) -> None:
    create_topic()
    given = {"security_protocol": "SASL_SSL", "ssl_ca_location": str(certificate), "sasl_mechanism": "PLAIN"}
    assert topics(door("PLAIN", certificate), **given, sasl_jaas_config=jaas()) > 0


def test_a_security_protocol_that_the_listener_does_not_expect(
    door: Callable[..., int], bootstrap: str, certificate: Path
) -> None:
    plain = int(bootstrap.rpartition(":")[2])
    expects_tls = door(None, certificate)
    for port in (expects_tls, door("PLAIN")):
        with pytest.raises(ClusterUnreachable, match="another security protocol than PLAINTEXT"):
            topics(port)
    with pytest.raises(ClusterUnreachable, match="as a listener does that expects no TLS"):
        topics(plain, security_protocol="SSL", ssl_ca_location=str(certificate))


def test_spark_writes_and_reads_over_tls_with_a_password(spark: "SparkSession", tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1, tls=True, users={USER: PASSWORD}) as cluster:
        cluster.create_topic("orders", partitions=2)
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(tmp_path / "tls" / "ca.pem"),
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": jaas(),
        }
        rows = spark.range(20).selectExpr("cast(id as string) as value")
        rows.write.format("tidelog").options(**options).option("topic", "orders").mode("append").save()
        found = spark.read.format("tidelog").options(**options).option("subscribe", "orders").load()
        values = {bytes(row.value).decode() for row in found.select("value").collect()}
    assert values == {str(number) for number in range(20)}
