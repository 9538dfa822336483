"""Clusters of ``tidelog.testing`` with TLS, with users, and with both."""

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from tidelog.cli import main
from tidelog.testing import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

PASSWORD = 's3cret = "quoted" \\ hunter2'
USERS = {"alice": PASSWORD, "bob": "another"}


def through(cluster: Cluster, topic: str, user: str | None = None) -> bytes:
    """One record, written and read by a client."""
    settings = cluster.client_settings(user)
    producer = confluent_kafka.Producer({**settings, "acks": "all"})
    producer.produce(topic, b"through")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value() or b""
    finally:
        consumer.close()


def is_refused(settings: dict[str, object]) -> bool:
    consumer = confluent_kafka.Consumer({**settings, "group.id": "x", "log_level": 0})
    try:
        consumer.list_topics(timeout=1.5)
    except confluent_kafka.KafkaException:
        return True
    finally:
        consumer.close()
    return False


@pytest.mark.tidelog_security(tls=True, users=USERS)
def test_tls_and_users(tidelog_cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    tidelog_cluster.create_topic("t")
    alice = tidelog_cluster.client_settings("alice")
    assert alice["security.protocol"] == "SASL_SSL"
    assert through(tidelog_cluster, "t", "alice") == b"through"
    assert is_refused({**alice, "sasl.password": "wrong"})
    assert is_refused({"bootstrap.servers": tidelog_cluster.bootstrap})
    # The same from the command line, by the file. A password is shown nowhere.
    file = tidelog_cluster.client_file("alice")
    assert file.stat().st_mode & 0o777 == 0o600
    for words in (["topic", "describe", "t"], ["cluster", "health"], ["config", "show"]):
        assert main([*words, "--config", str(file)]) == 0
    command = [sys.executable, "-m", "tidelog", "produce", "t", "--config", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "hunter2" not in Path(f"/proc/{process.pid}/cmdline").read_text()
        said = process.communicate("one more\n", timeout=60)
    assert process.returncode == 0, said
    wrong = file.with_name("wrong.properties")
    wrong.write_text(file.read_text().replace("hunter2", "hunter3"))
    assert main(["topic", "list", "--config", str(wrong)]) == 1
    assert main(["topic", "create", "u", "--config", str(wrong)]) == 1
    out = "".join([*map(str, said), *capfd.readouterr()])
    assert "The broker rejected the user 'alice'" in out
    assert "Traceback" not in out
    logs = "".join(broker.log_text() for broker in tidelog_cluster)
    assert not [secret for secret in ("hunter2", "hunter3") if secret in out + logs]
    # Nodes use the same listeners, and come back.
    victim = tidelog_cluster.leader_of("t")
    victim.kill()
    victim.start()
    tidelog_cluster.await_in_sync("t")


@pytest.mark.tidelog_brokers(1)
@pytest.mark.tidelog_security(users=USERS)
def test_users_without_tls(tidelog_cluster: Cluster) -> None:
    tidelog_cluster.create_topic("t")
    assert through(tidelog_cluster, "t", "bob") == b"through"
    assert is_refused({"bootstrap.servers": tidelog_cluster.bootstrap})


@pytest.mark.tidelog_brokers(1)
@pytest.mark.tidelog_security(tls=True)
def test_tls_without_users(tidelog_cluster: Cluster) -> None:
    tidelog_cluster.create_topic("t")
    settings = tidelog_cluster.client_settings()
    assert through(tidelog_cluster, "t") == b"through"
    bare = {
        name: value for name, value in settings.items() if "certificate" not in name and "key" not in name
    }
    assert is_refused(bare)
    added = tidelog_cluster.add_broker()
    added.start()
    tidelog_cluster.await_ready()
