"""SASL with real clients, over every mechanism, and what goes wrong with it."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tidelog.client.cluster import Cluster as Client
from tidelog.client.sasl import AuthenticationFailed
from tidelog.client.settings import ClientSettings, OAuthSettings, SaslSettings
from tidelog.lab.local.certificates import Authority
from tidelog.security.scram import ScramMechanism, credential_of_password
from tidelog.security.users import hashed
from tidelog.testing import Broker, Cluster

from .test_java import CONSUMER, JARS, PRODUCER, java
from .wire import ConnectionEnded, Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

USER, PASSWORD = "alice", "alice's secret"
HASHED = "hashed"
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
ALL = ",".join([*MECHANISMS, "OAUTHBEARER"])
ISSUER, AUDIENCE = "https://issuer.test", "tidelog"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs tokens, as an identity provider does."""

    def __init__(self, kid: str = "first") -> None:
        self.kid = kid
        self._key = rsa.generate_private_key(65537, 2048)

    def jwks(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": self.kid, "use": "sig", "n": encoded(numbers.n.to_bytes(256)),
               "e": encoded(numbers.e.to_bytes(3))}  # fmt: skip
        return json.dumps({"keys": [key]})

    def token(self, *, valid_s: float = 3600, alg: str = "RS256", **claims: Any) -> str:
        now = time.time()
        body = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + valid_s, **claims}
        header = {"alg": alg, "kid": self.kid, "typ": "JWT"}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, body))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{encoded(signature)}"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


USERS = f"# first users\n{USER}:{PASSWORD}\n"


def write(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


class SaslBroker(Broker):
    """With a second listener, where clients authenticate."""

    def __init__(self, directory: Path, settings: dict[str, Any]) -> None:
        super().__init__(directory, settings)
        self.sasl_port = self.port + 1
        self.settings["listeners"] = f"PLAINTEXT://{self.bootstrap},CLIENTS://{self.secured}"
        self.settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"

    @property
    def secured(self) -> str:
        return f"{self.host}:{self.sasl_port}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[SaslBroker]:
    directory = tmp_path_factory.mktemp("sasl")
    sha_512 = ScramMechanism.SCRAM_SHA_512
    credential = hashed(sha_512, credential_of_password(sha_512, PASSWORD, b"salt"))
    users = write(directory / "users", f"{USERS}{HASHED}:{credential}\n")
    settings = {
        "sasl.enabled.mechanisms": ALL,
        "sasl.plain.unencrypted": True,
        "sasl.users.file": str(users),
        "sasl.oauthbearer.jwks.file": str(write(directory / "jwks.json", issuer.jwks())),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connections.max.reauth.ms": 3000,
        "sasl.login.timeout.ms": 1000,
    }
    broker = SaslBroker(directory, settings)
    broker.start()
    yield broker
    broker.close()
    log = broker.log_text()
    assert PASSWORD not in log
    assert "Traceback" not in log


def conf(bootstrap: str, mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def settings_of(
    broker: SaslBroker, mechanism: str, user: str = USER, password: str = PASSWORD, **more: Any
) -> ClientSettings:
    sasl = SaslSettings(mechanism, user, password, **more)
    return ClientSettings(((broker.host, broker.sasl_port),), sasl=sasl)


# --- clients ------------------------------------------------------------------------------------------------


def through_confluent(topic: str, **more: Any) -> list[bytes]:
    errors: list[str] = []
    settings = {**more, "error_cb": lambda error: errors.append(str(error))}
    producer = Producer(settings)
    delivered = []
    producer.produce(topic, b"hello", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(20)
    assert delivered == [None], errors
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None, errors
    return [message.value() or b""]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent(broker: SaslBroker, mechanism: str) -> None:
    topic = f"confluent-{mechanism}".lower()
    assert through_confluent(topic, **conf(broker.secured, mechanism)) == [b"hello"]


def test_confluent_with_tokens(broker: SaslBroker, issuer: Issuer) -> None:
    settings = {
        "bootstrap.servers": broker.secured,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (issuer.token(), time.time() + 3600),
    }
    assert through_confluent("confluent-tokens", **settings) == [b"hello"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: SaslBroker, mechanism: str) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.secured,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    producer.send(f"kafka-python-{mechanism}".lower(), b"hello").get(20)
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: SaslBroker, mechanism: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.secured,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        await producer.send_and_wait(f"aiokafka-{mechanism}".lower(), b"hello")
        await producer.stop()

    asyncio.run(produce())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own(broker: SaslBroker, mechanism: str) -> None:
    with Client(settings_of(broker, mechanism)) as client:
        client.known_topics([])


def test_our_own_with_tokens(broker: SaslBroker, issuer: Issuer, tmp_path: Path) -> None:
    token = write(tmp_path / "token", issuer.token())
    oauth = OAuthSettings(token_url=token.as_uri(), client_id="", client_secret="")
    with Client(settings_of(broker, "OAUTHBEARER", "", "", oauth=oauth)) as client:
        client.known_topics([])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_user_with_a_hashed_password(broker: SaslBroker, mechanism: str) -> None:
    with Client(settings_of(broker, mechanism, HASHED)) as client:
        client.known_topics([])


def test_users_of_the_metadata_log(broker: SaslBroker) -> None:
    """Made by Kafka's request for them."""
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from confluent_kafka.admin import (
        ScramMechanism as Mechanism,
    )

    admin = AdminClient(conf(broker.secured, "SCRAM-SHA-256"))
    info = ScramCredentialInfo(Mechanism.SCRAM_SHA_256, 4096)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"bob's secret")])
    made["bob"].result(20)
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        with Client(settings_of(broker, mechanism, "bob", "bob's secret")) as client:
            client.known_topics([])
    gone = admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", Mechanism.SCRAM_SHA_256)])
    gone["bob"].result(20)
    refused(broker, "SCRAM-SHA-256", "bob", "bob's secret")


@pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(broker: SaslBroker, tmp_path: Path, mechanism: str) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{USER}" password="{PASSWORD}";\n'
    )
    at = ["--bootstrap-server", broker.secured, "--topic", f"java-{mechanism}".lower()]
    java(PRODUCER, *at, "--command-config", str(config), stdin="hello\n")
    end = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "60000"]
    assert java(CONSUMER, *at, "--command-config", str(config), *end) == "hello\n"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_over_tls(tmp_path: Path, mechanism: str) -> None:
    """PLAIN needs no permission there."""
    authority = Authority(tmp_path / "tls")
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.users.file": str(write(tmp_path / "users", USERS)),
        "ssl.keystore.location": str(authority.issue("broker-1", ("127.0.0.1",)).pem),
    }
    broker = SaslBroker(tmp_path / "broker", settings)
    broker.settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL"
    broker.start()
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.certificate_path)}
    assert through_confluent("tls", **conf(broker.secured, mechanism) | tls) == [b"hello"]
    with Wire(broker.secured, timeout_s=20) as plain:  # a downgrade
        plain.send("sasl_handshake", 1, mechanism="PLAIN")
        assert b"SCRAM" not in plain.wait_until_closed()
    broker.close()


# --- what is refused ----------------------------------------------------------------------------------------


def refused(broker: SaslBroker, mechanism: str, user: str, password: str, **more: Any) -> None:
    with (
        pytest.raises(AuthenticationFailed),
        Client(settings_of(broker, mechanism, user, password, **more)) as client,
    ):
        client.known_topics([])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("user", "password"),
    [(USER, "guess"), ("mallory", PASSWORD), (USER, PASSWORD + " "), ("broker-1", "x" * 40)],
)
def test_wrong_passwords(broker: SaslBroker, mechanism: str, user: str, password: str) -> None:
    refused(broker, mechanism, user, password)


def test_what_real_clients_say_about_a_wrong_password(broker: SaslBroker) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**conf(broker.secured, "PLAIN", password="guess"), "error_cb": errors.append})
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION


@pytest.mark.parametrize(
    "claims",
    [
        {"valid_s": -60},
        {"nbf": 1e10},
        {"iat": 1e10},
        {"iss": "https://somebody.else"},
        {"aud": "another"},
        {"aud": None},
        {"sub": ""},
        {"sub": 7},
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"exp": None},
        {"exp": "soon"},
    ],
)
def test_tokens_that_are_not_accepted(
    broker: SaslBroker, issuer: Issuer, tmp_path: Path, claims: dict[str, Any]
) -> None:
    token = write(tmp_path / "token", issuer.token(**claims))
    refused(broker, "OAUTHBEARER", "", "", oauth=OAuthSettings(token.as_uri(), "", ""))


def test_a_token_of_somebody_else(broker: SaslBroker, tmp_path: Path) -> None:
    token = write(tmp_path / "token", Issuer().token())
    refused(broker, "OAUTHBEARER", "", "", oauth=OAuthSettings(token.as_uri(), "", ""))


def test_clocks_may_differ_a_little(broker: SaslBroker, issuer: Issuer, tmp_path: Path) -> None:
    token = write(tmp_path / "token", issuer.token(valid_s=-10))
    oauth = OAuthSettings(token.as_uri(), "", "")
    with Client(settings_of(broker, "OAUTHBEARER", "", "", oauth=oauth)) as client:
        client.known_topics([])


@pytest.fixture
def wire(broker: SaslBroker) -> Iterator[Wire]:
    with Wire(broker.secured) as wire:
        yield wire


def test_a_mechanism_that_is_not_there(wire: Wire) -> None:
    answer = wire.call("sasl_handshake", 1, mechanism="GSSAPI")
    assert answer.error_code == 33
    assert sorted(answer.mechanisms) == sorted(ALL.split(","))
    assert wire.wait_until_closed() == b""


@pytest.mark.parametrize(
    ("api", "version"),
    [("metadata", 12), ("produce", 9), ("fetch", 12), ("create_topics", 5), ("list_groups", 4)],
)
def test_nothing_is_served_before_the_login(wire: Wire, api: str, version: int) -> None:
    assert wire.call("api_versions", 3, client_software_name="x", client_software_version="1").api_keys
    wire.send(api, version)
    assert wire.wait_until_closed() == b""


def test_nor_between_its_steps(wire: Wire) -> None:
    assert wire.call("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 0
    assert wire.call("sasl_authenticate", 2, auth_bytes=b"n,,n=alice,r=x").error_code == 0
    wire.send("metadata", 12, topics=[])
    assert wire.wait_until_closed() == b""


def test_nor_to_who_sends_it_with_a_wrong_login(wire: Wire) -> None:
    """All in one piece, so that it is there when the login fails."""
    wire.send("sasl_handshake", 1, mechanism="PLAIN")
    wire.send("sasl_authenticate", 2, auth_bytes=b"\0alice\0guess")
    wire.send("metadata", 12, topics=[])
    assert wire.receive("sasl_handshake", 1, 1).error_code == 0
    assert wire.receive("sasl_authenticate", 2, 2).error_code == 58
    assert wire.wait_until_closed() == b""


def test_but_to_who_sends_it_with_a_right_one(wire: Wire) -> None:
    wire.send("sasl_handshake", 1, mechanism="PLAIN")
    wire.send("sasl_authenticate", 2, auth_bytes=f"\0{USER}\0{PASSWORD}".encode())
    wire.send("metadata", 12, topics=[])
    assert wire.receive("sasl_handshake", 1, 1).error_code == 0
    assert wire.receive("sasl_authenticate", 2, 2).error_code == 0
    assert wire.receive("metadata", 12, 3).brokers


@pytest.mark.parametrize(
    "token",
    [b"", b"\0", b"\0alice\0", b"\0\0", b"bob\0alice\0" + PASSWORD.encode(), b"\0alice\0a\0b", b"\xff\0x\0y",
     b"\0" * 1000, b"\0alice\0" + b"p" * 400_000],
)  # fmt: skip
def test_tokens_of_plain_that_are_none(wire: Wire, token: bytes) -> None:
    assert wire.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
    assert wire.call("sasl_authenticate", 2, auth_bytes=token).error_code == 58
    assert wire.wait_until_closed() == b""


def test_more_than_a_login_needs_is_not_received(wire: Wire) -> None:
    wire.send_bytes(struct.pack(">ihh", 600_000, 36, 2))
    assert wire.wait_until_closed() == b""


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_half_a_login_and_silence(wire: Wire, frames: int) -> None:
    if frames > 0:
        assert wire.call("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 0
    if frames > 1:
        assert wire.call("sasl_authenticate", 2, auth_bytes=b"n,,n=alice,r=x").error_code == 0
    assert wire.wait_until_closed() == b""


def test_a_plain_client_is_told_nothing(broker: SaslBroker) -> None:
    with Wire(broker.secured) as wire, pytest.raises(ConnectionEnded):
        wire.call("metadata", 12, topics=[])


# --- sessions -----------------------------------------------------------------------------------------------


def log_in(wire: Wire, user: str = USER) -> int:
    """The lifetime of the session, in milliseconds."""
    assert wire.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
    answer = wire.call("sasl_authenticate", 2, auth_bytes=f"\0{user}\0{PASSWORD}".encode())
    assert answer.error_code == 0
    lifetime: timedelta = answer.session_lifetime
    return round(lifetime.total_seconds() * 1000)


def test_a_session_ends(wire: Wire) -> None:
    assert log_in(wire) == 3000
    deadline = time.monotonic() + 20
    with pytest.raises(ConnectionEnded):
        while time.monotonic() < deadline:
            wire.call("metadata", 12, topics=[])
            time.sleep(0.05)


def test_who_authenticates_again_goes_on(wire: Wire) -> None:
    log_in(wire)
    begin = time.monotonic()
    while time.monotonic() < begin + 7:  # more than two sessions
        time.sleep(1)
        log_in(wire)
        assert wire.call("metadata", 12, topics=[]).brokers


def test_also_after_the_session_has_ended(wire: Wire) -> None:
    log_in(wire)
    time.sleep(3.5)
    log_in(wire)
    assert wire.call("metadata", 12, topics=[]).brokers


def test_nobody_goes_on_with_the_connection_of_another(wire: Wire) -> None:
    log_in(wire)
    assert wire.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
    answer = wire.call("sasl_authenticate", 2, auth_bytes=f"\0{HASHED}\0{PASSWORD}".encode())
    assert answer.error_code == 58
    assert wire.wait_until_closed() == b""


def test_real_clients_authenticate_again(broker: SaslBroker) -> None:
    producer = Producer(conf(broker.secured, "SCRAM-SHA-512"))
    failed = []
    begin = time.monotonic()
    while time.monotonic() < begin + 8:
        producer.produce("again", b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.05)
    assert producer.flush(20) == 0
    assert failed == []


# --- files --------------------------------------------------------------------------------------------------


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_files_are_read_again(broker: SaslBroker) -> None:
    users = broker.directory / "users"
    before = users.read_text()
    users.write_text(f"{before}carol:{PASSWORD}\n")
    with Client(settings_of(broker, "PLAIN", "carol")) as client:
        client.known_topics([])
    users.write_text("no users at all\n")
    with Client(settings_of(broker, "PLAIN", "carol")) as client:
        client.known_topics([])
    assert "what was read before stays in use" in broker.log_text()
    assert "no users at all" not in broker.log_text()
    users.write_text(before)
    refused(broker, "PLAIN", "carol", PASSWORD)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN"}, "PLAIN sends passwords as they are"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.file"),
        ({"sasl.users.file": "missing"}, "cannot be read"),
        (
            {"inter.broker.listener.name": "CLIENTS", "cluster.secret.file": ""},
            "cluster.secret.file is needed",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    broker = SaslBroker(tmp_path, settings)
    broker.launch()
    assert broker.await_end() == 1
    assert reason in broker.log_text()


@pytest.mark.slow
def test_a_cluster_whose_nodes_authenticate_at_sasl_listeners(tmp_path: Path) -> None:
    """Founded from nothing but the secret and a file of users."""
    users = write(tmp_path / "users", USERS)
    settings = {"sasl.users.file": str(users)}
    cluster = Cluster(tmp_path, 3, settings)
    for broker in cluster:
        broker.settings["listeners"] = f"SECURED://{broker.bootstrap}"
        broker.settings["listener.security.protocol.map"] = "SECURED:SASL_PLAINTEXT"
        broker.launch()
    try:
        sasl = SaslSettings("SCRAM-SHA-256", USER, PASSWORD)
        addresses = tuple((broker.host, broker.port) for broker in cluster)

        def all_there() -> bool:
            try:
                with Client(ClientSettings(addresses, sasl=sasl)) as client:
                    return len(client.brokers()) == 3
            except OSError:
                return False

        eventually(all_there)
        as_alice = conf(cluster.bootstrap, "SCRAM-SHA-256")
        assert through_confluent("first", **as_alice) == [b"hello"]
    finally:
        for broker in cluster:
            broker.kill()
