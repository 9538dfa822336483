"""What strangers send before they have authenticated, or instead of it: others are served meanwhile."""

import select
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tidelog.lab.local.broker import free_port
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.secret import make_secret
from tidelog.runtime.request_memory import LOGIN_BYTES_MAX
from tidelog.testing import Broker

from . import calls
from .node_wires import node_wire
from .records import batch
from .test_sasl import ALL, PASSWORD, USERS, Issuer, SaslBroker, write
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

MEGABYTE = 1 << 20
ALLOWED = 524_288  # sasl.server.max.receive.size
GUESSES = 300
STRANGERS = 300  # with unfinished logins: 157 MB
PATIENCE_S = 3  # The longest of these messages held the event loop for half a minute.

LONG_MESSAGES = [
    ("OAUTHBEARER", b"n,,\x01" + b"auth=Bearer x\x01" * 37_000),
    ("OAUTHBEARER", b"n,,\x01auth=Bearer " + b"e30." * 120_000 + b"\x01\x01"),
    ("SCRAM-SHA-256", b"n,,n=alice,r=" + b"x" * 500_000),
    ("SCRAM-SHA-512", b"n,,n=" + b"x" * 500_000 + b",r=x"),
    ("PLAIN", b"\0" + b"x" * 500_000 + b"\0x"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    directory = tmp_path_factory.mktemp("before-login")
    settings = {
        "sasl.enabled.mechanisms": ALL,
        "sasl.plain.unencrypted": True,
        "sasl.users.file": str(write(directory / "users", USERS)),
        "sasl.oauthbearer.jwks.file": str(write(directory / "jwks.json", Issuer().jwks())),
        "sasl.login.timeout.ms": 60_000,
        "socket.request.max.bytes": MEGABYTE,
        "queued.max.request.bytes": MEGABYTE,
    }
    broker = SaslBroker(directory, settings)
    broker.start()
    yield broker
    broker.close()
    assert "Traceback" not in broker.log_text()


@pytest.mark.parametrize(("mechanism", "message"), LONG_MESSAGES)
def test_a_long_message_holds_nobody_up(broker: SaslBroker, mechanism: str, message: bytes) -> None:
    logged = len(broker.log_text())
    with Wire(broker.secured) as stranger, Wire(broker.bootstrap) as other:
        assert other.call("api_versions", 0).error_code == 0
        assert stranger.call("sasl_handshake", 1, mechanism=mechanism).error_code == 0
        stranger.send("sasl_authenticate", 2, auth_bytes=message)
        began = time.monotonic()
        assert stranger.receive("sasl_authenticate", 2, 2).error_code in (0, 58)
        assert other.call("api_versions", 0).error_code == 0
        assert time.monotonic() - began < PATIENCE_S
    assert max(map(len, broker.log_text()[logged:].splitlines()), default=0) < 1000


def test_unfinished_logins_use_no_memory_of_others(broker: SaslBroker) -> None:
    """The strangers hold twice what all requests may use."""
    with ExitStack() as stack:
        for _ in range(4):
            stranger = stack.enter_context(Wire(broker.secured))
            assert stranger.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
            stranger.send_bytes(struct.pack(">ihh", ALLOWED, 36, 2) + b"x" * (ALLOWED - 1000))
        with Wire(broker.secured, timeout_s=10) as client:
            assert client.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
            login = f"\0alice\0{PASSWORD}".encode()
            assert client.call("sasl_authenticate", 2, auth_bytes=login).error_code == 0
            calls.create_topic(client, "beside-strangers")
            for _ in range(3):
                answer = calls.produce(client, "beside-strangers", bytes(batch(b"x" * 900_000)))
                assert answer.error_code is ErrorCode.none


def resident_bytes(broker: Broker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4096


def test_many_unfinished_logins_use_no_more_memory_than_some(broker: SaslBroker) -> None:
    """Each sends half a megabyte, when all of them have begun. Together they may use 16 MB, and a
    little for each.
    """
    with ExitStack() as stack, Wire(broker.bootstrap) as other:
        assert other.call("api_versions", 0).error_code == 0
        before = resident_bytes(broker)
        strangers = [stack.enter_context(Wire(broker.secured)) for _ in range(STRANGERS)]
        for stranger in strangers:
            stranger.send_bytes(struct.pack(">ihh", ALLOWED, 36, 2) + b"x" * 1000)
        assert other.call("api_versions", 0).error_code == 0
        for stranger in strangers:
            stranger.socket.setblocking(False)
            with suppress(BlockingIOError):
                stranger.socket.send(b"x" * (ALLOWED - 2000))
        assert other.call("api_versions", 0).error_code == 0
        assert resident_bytes(broker) - before < 2 * LOGIN_BYTES_MAX


def test_strangers_at_a_listener_for_nodes(tmp_path: Path) -> None:
    """More than the process has descriptors: clients write, and a node is let in."""
    make_secret(secret := tmp_path / "secret")
    brokers = f"127.0.0.1:{free_port()}"
    settings = {
        SECRET: str(secret),
        "listener.security.protocol.map": "BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "controller.quorum.voters": f"1@{brokers}",
    }
    broker = Broker(tmp_path / "broker", settings, prefix=["prlimit", "--nofile=600:600"])
    broker.settings["listeners"] = f"PLAINTEXT://{broker.bootstrap},BROKERS://{brokers}"
    broker.start()
    try:
        with ExitStack() as stack:
            first = stack.enter_context(Wire(broker.bootstrap))
            for _ in range(700):
                stack.enter_context(Wire(brokers))
            calls.create_topic(first, "t", 60)
            for partition in range(60):
                answer = calls.produce(first, "t", bytes(batch(b"v")), partition=partition)
                assert answer.error_code is ErrorCode.none
            with node_wire(brokers, secret) as node:
                assert node.call("metadata", 12, topics=[]).brokers
            with Wire(broker.bootstrap) as client:
                assert client.call("metadata", 12, topics=[]).brokers
        assert "Too many open files" not in broker.log_text()
    finally:
        broker.kill()


def test_guessed_passwords_do_not_delay_what_others_have_computed(broker: SaslBroker) -> None:
    """A check of a password takes milliseconds in a thread. Responses with many rows are encoded in one."""
    with ExitStack() as stack, Wire(broker.bootstrap) as other:
        many = [{"name": f"none-{number}"} for number in range(600)]
        assert len(other.call("metadata", 9, topics=many).topics) == len(many)
        strangers = [stack.enter_context(Wire(broker.secured)) for _ in range(GUESSES)]
        for stranger in strangers:
            assert stranger.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
        for stranger in strangers:
            stranger.send("sasl_authenticate", 2, auth_bytes=b"\0alice\0guess")
        assert len(other.call("metadata", 9, topics=many).topics) == len(many)
        answered, _, _ = select.select([stranger.socket for stranger in strangers], [], [], 0)
        assert len(answered) < GUESSES / 2
