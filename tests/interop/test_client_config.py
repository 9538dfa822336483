"""The commands over TLS with ``--config client.properties``, in Java's words and in librdkafka's."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.lab.local.certificates import Authority

from .tls_cluster import MUTUAL, TlsCluster, tls_cluster

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

JAVA = """# A client's file, with settings of other programs, too
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.keystore.type=PEM
ssl.keystore.location={client.pem}
acks=all
"""
LIBRDKAFKA = """security.protocol=ssl
ssl.ca.location={authority}
ssl.certificate.location={client.certificate}
ssl.key.location={client.key}
bootstrap.servers={bootstrap}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with tls_cluster(tmp_path_factory.mktemp("config")) as made:
        yield made


def written(cluster: TlsCluster, path: Path, text: str) -> str:
    authority = cluster.authority.certificate_path
    bootstrap = cluster.bootstrap(MUTUAL)
    path.write_text(text.format(authority=authority, client=cluster.client, bootstrap=bootstrap))
    return str(path)


def run(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_commands_over_tls(cluster: TlsCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    java = ["--config", written(cluster, tmp_path / "j.properties", JAVA)]
    java += ["--bootstrap", cluster.bootstrap(MUTUAL)]
    other = ["--config", written(cluster, tmp_path / "l.properties", LIBRDKAFKA)]
    # Brokers of this cluster may be reached by the port without TLS, too: that these are not used is shown by
    # what the clients are told, which are addresses of the listener that they came in by.
    done = run("produce", "greetings", "--create", *java, stdin="hello\n")
    assert done.returncode == 0, done.stderr
    for words in (
        ["topic", "describe", "greetings"],
        ["cluster", "describe"],
        ["cluster", "health"],
        ["config", "show"],
        ["group", "list"],
        ["user", "list"],
    ):
        assert main([*words, *other]) == 0, words
        assert not capsys.readouterr().err, words
    assert "hello" in run("consume", "greetings", "--max", "1", *other).stdout
    assert main(["cluster", "describe", *java]) == 0
    assert f"127.0.0.1:{cluster.port(MUTUAL)}" in capsys.readouterr().out


def test_what_a_wrong_file_is_told(cluster: TlsCluster, tmp_path: Path) -> None:
    there = ["--bootstrap", cluster.bootstrap(MUTUAL)]
    bare = run("topic", "list", *there)
    assert bare.returncode == 1
    assert "expects another security protocol than PLAINTEXT; --config names" in bare.stderr
    nobody = tmp_path / "nobody.properties"
    nobody.write_text(f"security.protocol=SSL\nssl.ca.location={cluster.authority.certificate_path}\n")
    refused = run("topic", "list", *there, "--config", str(nobody))
    assert refused.returncode == 1
    assert "may need a certificate of the client, ssl.keystore.location" in refused.stderr
    stranger = Authority(tmp_path / "other")
    written(cluster, nobody, JAVA.replace("{authority}", str(stranger.certificate_path)))
    distrust = run("topic", "list", *there, "--config", str(nobody))
    assert distrust.returncode == 1
    assert "is not accepted: self-signed certificate" in distrust.stderr
    assert "kafka." not in distrust.stderr
    assert "Traceback" not in bare.stderr + refused.stderr + distrust.stderr
