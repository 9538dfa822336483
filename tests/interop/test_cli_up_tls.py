"""``tidelog up --tls``: one flag, and all commands, clients and the page speak TLS."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tidelog.client.librdkafka import librdkafka_settings
from tidelog.client.ports import is_free
from tidelog.lab.local.broker import free_port
from tidelog.lab.local.certificates import Authority
from tidelog.lab.local.tls import client_security

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

PORT = free_port()


def run(cwd: Path, *words: str, stdin: str = "", **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in which the cluster runs, without its page."""
    home = tmp_path_factory.mktemp("up")
    said = run(home, "up", "--tls", "--detach", "--no-page", "--port", str(PORT))
    try:
        assert f"clients use {home / '.tidelog' / 'client.properties'}" in said
        yield home
    finally:
        run(home, "down")


def test_commands_beside_the_directory_find_the_file(home: Path) -> None:
    run(home, "produce", "greetings", "--create", stdin="hello\n")
    assert "hello" in run(home, "consume", "greetings", "--max", "1")
    assert "Healthy: 3 brokers" in run(home, "cluster", "health")


def test_everything_is_encrypted_and_asks_for_a_certificate(home: Path) -> None:
    for number in (1, 2, 3):
        settings = (home / ".tidelog" / f"broker-{number}" / "broker.toml").read_text()
        assert f'"listeners" = "SSL://127.0.0.1:{PORT + number - 1}"' in settings
        assert '"ssl.client.auth" = "required"' in settings
    private = [home / ".tidelog" / "client.properties", *(home / ".tidelog" / "tls").glob("*.key")]
    assert {oct(path.stat().st_mode & 0o777) for path in private} == {"0o600"}
    assert (home / ".tidelog" / "tls").stat().st_mode & 0o077 == 0
    bare = confluent_kafka.Consumer(
        {"bootstrap.servers": f"127.0.0.1:{PORT}", "group.id": "x", "log_level": 0}
    )
    with pytest.raises(confluent_kafka.KafkaException):
        bare.list_topics(timeout=2)
    bare.close()


def test_a_broker_stops_and_starts_again(home: Path) -> None:
    assert "Stopped broker 3" in run(home, "broker", "stop", "3", "--yes")
    assert "Broker 3 is back" in run(home, "broker", "start", "3")


def test_the_page_reads_over_tls(home: Path) -> None:
    command = [sys.executable, "-m", "tidelog", "page", "--port", "0", "--config", "client.properties"]
    page = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home / ".tidelog")
    try:
        assert page.stdout is not None
        address = page.stdout.readline().removeprefix("page ").strip()
        with urllib.request.urlopen(f"{address}events", timeout=60) as events:
            up: set[str] = set()
            for line in events:
                if line.startswith(b"data: "):
                    said = json.loads(line[6:])
                    known = said.get("all", {}) | said.get("changes", {})
                    up |= {key for key, row in known.items() if key.startswith("b/") and row["state"] == "up"}
                if len(up) == 3:
                    break
        assert len(up) == 3
    finally:
        page.terminate()
        page.wait()


def test_a_cluster_keeps_tls_and_its_certificates(tmp_path: Path) -> None:
    port = free_port()
    words = ["up", "--detach", "--no-page", "--port", str(port), "--brokers", "1"]
    run(tmp_path, *words)
    run(tmp_path, "produce", "kept", "--create", stdin="before\n")
    run(tmp_path, "down")
    # From PLAINTEXT to TLS with the same data; after that without the flag.
    run(tmp_path, *words, "--tls")
    run(tmp_path, "down")
    root = tmp_path / ".tidelog"
    authority, certificate = (
        (root / "tls" / "ca.pem").read_bytes(),
        (root / "tls" / "broker-1.pem").read_bytes(),
    )
    Authority(root / "tls").issue("client", days=1)
    soon = (root / "tls" / "client.pem").read_bytes()
    assert is_free("127.0.0.1", port)
    assert "clients use" in run(tmp_path, *words)
    try:
        assert (root / "tls" / "ca.pem").read_bytes() == authority
        assert (root / "tls" / "broker-1.pem").read_bytes() == certificate
        assert (root / "tls" / "client.pem").read_bytes() != soon  # It would have ended the next day.
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                **librdkafka_settings(client_security(root)),
            }
        )
        consumer.subscribe(["kept"])
        message = consumer.poll(60)
        consumer.close()
        assert message is not None
        assert message.value() == b"before"
    finally:
        run(tmp_path, "down")
