"""Access rules, users and quotas, with real clients: mutual TLS says who they are."""

import contextlib
import io
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tidelog.cli.app import run as command
from tidelog.lab.local.broker import free_port
from tidelog.lab.local.certificates import LOCAL_HOSTS, Authority
from tidelog.testing import Broker, Setting, running_cluster

from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = ("admin", "alice", "bob")


class Secured(NamedTuple):
    broker: Broker
    address: str  # of the listener with TLS
    certificates: Path
    admins: dict[str, AdminClient]  # A client that is dropped answers nothing.

    def settings(self, user: str, **more: Any) -> dict[str, Any]:
        there = self.certificates
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(there / "ca.pem"),
            "ssl.certificate.location": str(there / f"{user}.crt"),
            "ssl.key.location": str(there / f"{user}.key"),
            **more,
        }

    def admin(self, user: str) -> AdminClient:
        if user not in self.admins:
            self.admins[user] = AdminClient(self.settings(user))
        return self.admins[user]

    def audited(self) -> list[dict[str, Any]]:
        lines = (self.broker.directory / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory / "tls")
    authority.issue("broker-1", LOCAL_HOSTS)
    for user in USERS:
        authority.issue(user, ())
    encrypted = f"127.0.0.1:{free_port()}"
    settings: dict[str, Setting] = {
        "ssl.keystore.location": str(directory / "tls" / "broker-1.pem"),
        "ssl.truststore.location": str(directory / "tls" / "ca.pem"),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin",
        "audit.log.file": "audit.log",
    }
    broker = Broker(directory / "broker", settings)
    broker.settings["listeners"] = f"PLAINTEXT://{broker.bootstrap},SSL://{encrypted}"
    try:
        broker.start()
        yield Secured(broker, encrypted, directory / "tls", {})
    finally:
        broker.close()


def rule(
    user: str, operation: AclOperation, name: str, *, kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:  # fmt: skip
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def add(secured: Secured, *rules: AclBinding) -> None:
    for future in secured.admin("admin").create_acls(list(rules)).values():
        future.result(30)


def create(secured: Secured, name: str, user: str = "admin") -> None:
    for future in secured.admin(user).create_topics([NewTopic(name, 1, 1)]).values():
        future.result(30)


def produce(secured: Secured, user: str, topic: str, **more: Any) -> KafkaError | None:
    """What became of one record."""
    told: list[KafkaError | None] = []
    producer = Producer(secured.settings(user, **{"message.timeout.ms": 10_000, **more}))
    producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0
    return told[0]


def consume(secured: Secured, user: str, topic: str, group: str) -> bytes | KafkaError | None:
    settings = secured.settings(user, **{"group.id": group, "auto.offset.reset": "earliest"})
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        return message.value() if error is None else error
    finally:
        consumer.close()


def test_a_topic_is_closed_until_a_rule_opens_it(secured: Secured) -> None:
    create(secured, "orders")
    refused = produce(secured, "alice", "orders")
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    add(secured, rule("alice", AclOperation.WRITE, "orders"))
    assert produce(secured, "alice", "orders") is None
    found = consume(secured, "bob", "orders", "readers")
    assert isinstance(found, KafkaError)
    add(
        secured,
        rule("bob", AclOperation.READ, "ord", pattern=ResourcePatternType.PREFIXED),
        rule("bob", AclOperation.READ, "readers", kind=ResourceType.GROUP),
    )
    assert consume(secured, "bob", "orders", "readers") == b"x"
    listed = secured.admin("alice").list_topics(timeout=30).topics
    assert set(listed) == {"orders"}


def test_clients_without_a_name_have_no_rights(secured: Secured) -> None:
    create(secured, "names")
    add(secured, rule("alice", AclOperation.ALL, "*"))
    anonymous = AdminClient({"bootstrap.servers": secured.broker.bootstrap})
    assert set(anonymous.list_topics(timeout=30).topics) == set()
    assert set(secured.admin("alice").list_topics(timeout=30).topics) >= {"names"}
    drop(secured, a_filter("*"))


def a_filter(name: str | None = None, principal: str | None = None) -> AclBindingFilter:
    """None fits everything."""
    fields: tuple[Any, ...] = (
        ResourceType.ANY, name, ResourcePatternType.ANY, principal, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    return AclBindingFilter(*fields)


def drop(secured: Secured, wanted: AclBindingFilter) -> list[AclBinding]:
    (future,) = secured.admin("admin").delete_acls([wanted]).values()
    return list(future.result(30))


def test_a_connection_loses_its_rights_with_the_rule(secured: Secured) -> None:
    """Also while its requests look alike, so that the broker does not parse them again."""
    create(secured, "taken-away")
    add(secured, rule("alice", AclOperation.WRITE, "taken-away"))
    told: list[KafkaError | None] = []
    producer = Producer(secured.settings("alice", **{"linger.ms": 0, "message.timeout.ms": 10_000}))

    def send() -> KafkaError | None:
        producer.produce("taken-away", b"x", on_delivery=lambda error, _: told.append(error))
        producer.flush(30)
        return told[-1]

    assert [send() for _ in range(5)] == [None] * 5
    assert len(drop(secured, a_filter("taken-away"))) == 1
    refused = send()
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_only_administrators_change_rules_users_and_topics(secured: Secured) -> None:
    alice = secured.admin("alice")
    deletion = UserScramCredentialDeletion("x", SHA_256)
    attempts = {
        "add rules": [*alice.create_acls([rule("alice", AclOperation.ALL, "orders")]).values()],
        "create topics": [*alice.create_topics([NewTopic("mine", 1, 1)]).values()],
        "delete topics": [*alice.delete_topics(["orders"]).values()],
        "change users": [*alice.alter_user_scram_credentials([deletion]).values()],
    }
    for what, futures in attempts.items():
        for future in futures:
            assert refusal_of(future) in DENIED, what
    # confluent-kafka does not tell its caller of these two.
    with Wire(secured.broker.bootstrap) as anonymous:
        users = anonymous.call("describe_user_scram_credentials", 0, users=[{"name": "x"}])
        assert (users.error_code, users.results[0].error_code) == (31, 31)
        rules = anonymous.call("describe_acls", 1, **ANY_FILTER)
        assert (rules.error_code, rules.resources) == (31, ())


DENIED = {KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}


def refusal_of(future: Any) -> int:
    try:
        future.result(30)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


SHA_256 = ScramMechanism.SCRAM_SHA_256
ANY_FILTER = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


def test_rules_are_described_and_deleted(secured: Secured) -> None:
    mine = [
        rule("carol", AclOperation.READ, "described"),
        rule("carol", AclOperation.WRITE, "described", permission=AclPermissionType.DENY),
    ]
    add(secured, *mine)
    add(secured, *mine)  # has no effect
    wanted = a_filter(principal="User:carol")
    found = secured.admin("admin").describe_acls(wanted).result(30)
    assert set(map(str, found)) == set(map(str, mine))
    assert len(drop(secured, wanted)) == 2
    assert secured.admin("admin").describe_acls(wanted).result(30) == []


def test_users(secured: Secured) -> None:
    admin = secured.admin("admin")
    change = UserScramCredentialUpsertion("dave", ScramCredentialInfo(SHA_256, 8192), b"secret", b"salt")
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(30)
    asked: Any = admin.describe_user_scram_credentials(["dave"])
    described = asked["dave"].result(30)
    (info,) = described.scram_credential_infos
    assert (info.mechanism, info.iterations) == (SHA_256, 8192)
    for future in admin.alter_user_scram_credentials([UserScramCredentialDeletion("dave", SHA_256)]).values():
        future.result(30)
    asked = admin.describe_user_scram_credentials(["dave"])
    with pytest.raises(KafkaException, match="does not exist"):
        asked["dave"].result(30)


def test_the_audit_log_says_who_did_what(secured: Secured) -> None:
    create(secured, "audited")
    refused = produce(secured, "bob", "audited")
    assert refused is not None
    lines = secured.audited()
    made = [line for line in lines if line["event"] == "change" and line["items"] == ["audited"]]
    assert [(line["principal"], line["api"], line["host"]) for line in made] == [
        ("User:admin", "create_topics", "127.0.0.1")
    ]
    refusals = [line for line in lines if line["event"] == "refused" and line["resource"] == "audited"]
    assert {(line["principal"], line["operation"]) for line in refusals} <= {
        ("User:bob", "DESCRIBE"), ("User:bob", "WRITE")
    }  # fmt: skip
    assert refusals
    assert (secured.broker.directory / "audit.log").stat().st_mode & 0o077 == 0


# --- commands -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Everybody who does not log in is an administrator; users log in at :func:`login_address`."""
    settings: dict[str, Setting] = {
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    broker = Broker(tmp_path_factory.mktemp("open") / "broker", settings)
    logins = f"SASL_PLAINTEXT://127.0.0.1:{free_port()}"
    broker.settings["listeners"] = f"PLAINTEXT://{broker.bootstrap},{logins}"
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system has no IPv6")
def test_rules_for_an_ipv4_address_hold_at_a_listener_for_ipv6(open_broker: Broker) -> None:
    """The system writes ::ffff:127.0.0.1 there."""
    port = free_port()
    settings: dict[str, Setting] = {
        **open_broker.settings,
        "listeners": f"PLAINTEXT://[::]:{port}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "allow.insecure.listeners": True,
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": True,
    }
    broker = Broker(open_broker.directory.with_name("v6"), settings, port=port)
    denied = {
        "resource_type": 2, "resource_name": "secrets", "resource_pattern_type": 3, "principal": "User:*",
        "operation": 2, "host": "127.0.0.1", "permission_type": 2,
    }  # fmt: skip
    allowed = {**denied, "host": "*", "permission_type": 3}
    asked = {"topics": [{"name": "secrets", "topic_id": None}], "allow_auto_topic_creation": False}
    try:
        broker.start()
        with Wire(f"127.0.0.1:{port}") as four:
            made = four.call("create_acls", 3, creations=[denied, allowed])
            assert [each.error_code.name for each in made.results] == ["none", "none"]
            [row] = four.call("metadata", 12, **asked).topics
            assert row.error_code.name == "topic_authorization_failed"
    finally:
        broker.close()


def login_address(broker: Broker) -> str:
    return str(broker.settings["listeners"]).rpartition("//")[2]


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(broker: Broker, *words: str, typed: str = "") -> Outcome:
    """A command, in this process: there are many."""
    out, err, given = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(typed)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command([*words, "--bootstrap", broker.bootstrap])
    finally:
        sys.stdin = given
    return Outcome(code, out.getvalue(), err.getvalue())


def said(broker: Broker, *words: str, typed: str = "") -> str:
    done = run(broker, *words, typed=typed)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestCommands:
    def test_of_rules(self, open_broker: Broker) -> None:
        said(open_broker, "acl", "add", "--allow", "alice", "--operation", "read", "--operation", "describe",
             "--topic", "orders*")  # fmt: skip
        said(
            open_broker,
            "acl",
            "add",
            "--deny",
            "*",
            "--operation",
            "all",
            "--group",
            "g",
            "--host",
            "10.0.0.1",
        )
        rows = json.loads(said(open_broker, "acl", "list", "--topic", "orders-1", "--json"))
        assert rows == [
            {"permission": "allow", "principal": "User:alice", "host": "*", "operation": operation,
             "resource": "topic", "name": "orders*"}
            for operation in ("read", "describe")
        ]  # fmt: skip
        assert "10.0.0.1" in said(open_broker, "acl", "list")
        kept = run(open_broker, "acl", "remove", "--principal", "alice", "--topic", "orders*")
        assert kept.returncode == 1 and "--yes" in kept.stderr
        removed = said(
            open_broker, "acl", "remove", "--principal", "alice", "--topic", "orders*", "--operation", "read",
            "--yes",
        )  # fmt: skip
        assert "1 rule" in removed
        assert "2 rules" not in said(open_broker, "acl", "remove", "--principal", "alice", "--yes")
        assert run(open_broker, "acl", "remove", "--principal", "alice", "--yes").returncode == 1

    def test_misused(self, open_broker: Broker) -> None:
        for words in (
            ["add", "--operation", "read", "--topic", "t"],
            ["add", "--allow", "a", "--deny", "b", "--operation", "read", "--topic", "t"],
            ["add", "--allow", "a", "--operation", "fly", "--topic", "t"],
            ["add", "--allow", "a", "--operation", "read"],
            ["add", "--allow", "a", "--operation", "read", "--topic", "t", "--group", "g"],
            ["remove", "--yes"],
        ):
            assert run(open_broker, "acl", *words).returncode == 2, words

    def test_of_users(self, open_broker: Broker) -> None:
        said(open_broker, "user", "set", "alice", typed="secret\n")
        rows = json.loads(said(open_broker, "user", "list", "--json"))
        assert [(row["user"], row["mechanism"]) for row in rows] == [
            ("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512")
        ]  # fmt: skip
        said(open_broker, "user", "delete", "alice", "--mechanism", "SCRAM-SHA-256")
        assert "SCRAM-SHA-256" not in said(open_broker, "user", "list")
        said(open_broker, "user", "delete", "alice")
        assert run(open_broker, "user", "delete", "alice").returncode == 1
        assert run(open_broker, "user", "set", "bob", typed="\n").returncode == 2

    def test_dumps_of_the_log_do_not_show_keys(self, open_broker: Broker) -> None:
        said(open_broker, "user", "set", "carol", typed="secret\n")
        logs = sorted(open_broker.data_directory.glob("__cluster_metadata*/*.log"))
        for extra in ([], ["--json"]):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                assert command(["log", "dump", "--values", *extra, *map(str, logs)]) == 0
            shown = out.getvalue()
            assert "carol" in shown and "scram-credential-changed" in shown
            assert "stored_key" not in shown and "salt" not in shown

    def test_without_an_authorizer(self, bootstrap: str) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            assert command(["acl", "list", "--bootstrap", bootstrap]) == 1
        assert "authorizer.class.name" in err.getvalue()


def test_every_broker_of_a_cluster_refuses_the_same(tmp_path: Path) -> None:
    """Two of three brokers forward these requests, and the active controller judges them."""
    settings: dict[str, Setting] = {
        "authorizer.class.name": STANDARD,
        "allow.everyone.if.no.acl.found": True,
    }
    new = {"num_partitions": 1, "replication_factor": 1}
    with running_cluster(tmp_path, settings=settings) as cluster:
        said(cluster[1], "acl", "add", "--allow", "alice", "--operation", "create", "--topic", "closed*")
        # From now on the cluster is not open to everybody, either.
        said(cluster[1], "acl", "add", "--allow", "alice", "--operation", "create", "--cluster")
        brokers = [cluster[number] for number in (1, 2, 3)]
        for broker in brokers:
            names = [f"{word}-{broker.node_id}" for word in ("open", "closed")]
            with Wire(broker.bootstrap) as anonymous:
                topics = [{"name": name, **new} for name in names]
                made = anonymous.call("create_topics", 7, topics=topics, timeout=30_000)
            assert {topic.name: topic.error_code for topic in made.topics} == {names[0]: 0, names[1]: 29}
        lines = "".join(broker.log_text() for broker in brokers).splitlines()
        refused = [line for line in lines if '"event": "refused"' in line]
        assert len(refused) == len(brokers)
        assert all('"principal": "User:ANONYMOUS", "host": "127.0.0.1"' in line for line in refused)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_log_in_and_have_their_own_rights(open_broker: Broker, mechanism: str) -> None:
    topic = f"of-{mechanism.lower()}"
    said(open_broker, "topic", "create", topic, "--replicas", "1")
    said(open_broker, "user", "set", "erin", typed="secret\n")
    told: list[KafkaError | None] = []
    settings = {
        "bootstrap.servers": login_address(open_broker),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "erin",
        "sasl.password": "secret",
        "message.timeout.ms": 10_000,
    }

    def send() -> KafkaError | None:
        producer = Producer(settings)
        producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0
        return told[-1]

    refused = send()
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    said(open_broker, "acl", "add", "--allow", "erin", "--operation", "write", "--topic", topic)
    assert send() is None
    said(open_broker, "user", "delete", "erin")
    settings["message.timeout.ms"] = 2000
    refused = send()
    assert refused is not None and refused.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_certificates_are_needed(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=str(secured.certificates / "ca.pem"))
    host, port = secured.address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(raw, server_hostname=host) as wrapped,
    ):
        wrapped.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\0\0")
        if not wrapped.recv(1):
            raise ConnectionError("closed")
