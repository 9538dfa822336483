"""Kafka's own kafka-acls and kafka-configs administer access rules, users and quotas.

Needs ``TIDELOG_TEST_JARS``; see ``test_java``.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.testing import Broker, running_broker

from .test_java import JARS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.not_kafka,
    pytest.mark.slow,
    pytest.mark.skipif(JARS is None or shutil.which("java") is None, reason="needs Java and Kafka's jars"),
]

ACLS, CONFIGS = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with running_broker(tmp_path_factory.mktemp("tools"), settings) as broker:
        yield broker


def tool(broker: Broker, name: str, *words: str) -> str:
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", str(Path(JARS or "") / "*")]
    command = [*java, name, "--bootstrap-server", broker.bootstrap, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules(broker: Broker) -> None:
    tool(broker, ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    tool(
        broker, ACLS, "--add", "--deny-principal", "User:bob", "--operation", "Read", "--topic", "ord",
        "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    listed = tool(broker, ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    assert "(principal=User:bob, host=*, operation=READ, permissionType=DENY)" in listed
    tool(broker, ACLS, "--remove", "--force", "--topic", "orders")
    left = tool(broker, ACLS, "--list")
    assert "User:alice" not in left and "User:bob" in left


def test_users_and_quotas(broker: Broker) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    scram = "SCRAM-SHA-256=[iterations=8192,password=alice-secret],SCRAM-SHA-512=[password=x]"
    tool(broker, CONFIGS, "--alter", "--add-config", scram, *alice)
    described = tool(broker, CONFIGS, "--describe", "--entity-type", "users")
    assert "SCRAM-SHA-256=iterations=8192" in described and "SCRAM-SHA-512" in described
    tool(broker, CONFIGS, "--alter", "--delete-config", "SCRAM-SHA-512", *alice)
    assert "SCRAM-SHA-512" not in tool(broker, CONFIGS, "--describe", "--entity-type", "users")
    limits = "producer_byte_rate=1024,consumer_byte_rate=2048"
    clients = ("--entity-type", "clients", "--entity-default")
    tool(broker, CONFIGS, "--alter", "--add-config", limits, *alice, *clients)
    described = tool(broker, CONFIGS, "--describe", *alice, "--entity-type", "clients")
    assert "producer_byte_rate=1024.0" in described and "consumer_byte_rate=2048.0" in described
