"""A bundle is written whatever is missing, and contains no secrets."""

import tarfile
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.lab.local.broker import free_port


def test_without_any_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "up" / "broker-1"
    directory.mkdir(parents=True)
    (directory / "broker.log").write_text("a line\n")
    (directory / "broker.toml").write_text(
        '# "ssl.key.password" = "hidden"\n"node.id" = 1\n"ssl.key.password" = "hidden"\n'
        '"sasl.jaas.config" = """\nhidden"""\n'
    )
    (tmp_path / "up" / "up.log").write_text("page http://127.0.0.1:8080/#token=hidden-Hidden_1\n")
    path = tmp_path / "bundle.tar.gz"
    words = ["--dir", str(tmp_path / "up"), "--output", str(path)]
    assert main(["debug", "bundle", *words, "--bootstrap", f"127.0.0.1:{free_port()}"]) == 0
    assert "4 parts missing" in capsys.readouterr().out
    with tarfile.open(path) as bundle:
        texts = {
            entry.name.removeprefix("tidelog-bundle/"): bundle.extractfile(entry).read().decode()  # type: ignore[union-attr]
            for entry in bundle
        }
    assert texts["local/broker-1/broker.log"] == "a line\n"
    assert "hidden" not in texts["local/broker-1/broker.toml"]
    assert '"node.id" = 1\n' in texts["local/broker-1/broker.toml"]
    assert texts["local/up.log"] == "page http://127.0.0.1:8080/#token=…\n"
    assert path.stat().st_mode & 0o077 == 0
    assert "No broker answers" in texts["errors.txt"]
    assert texts["versions.txt"].startswith("tidelog ")


def test_the_state_is_of_the_cluster_whose_logs_it_has(tmp_path: Path) -> None:
    """Its health was that of the cluster at port 9092, beside the logs of this one."""
    directory = tmp_path / "up" / "broker-1"
    directory.mkdir(parents=True)
    port = free_port()
    (directory / "broker.toml").write_text(f'"node.id" = 1\nlisteners = "PLAINTEXT://127.0.0.1:{port}"\n')
    path = tmp_path / "bundle.tar.gz"
    assert main(["debug", "bundle", "--dir", str(tmp_path / "up"), "--output", str(path)]) == 0
    with tarfile.open(path) as bundle:
        asked = bundle.extractfile("tidelog-bundle/bootstrap.txt")
        assert asked is not None
        assert asked.read().decode() == f"127.0.0.1:{port}\n"


def test_an_interrupted_bundle_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tarfile.TarFile, "addfile", interrupt)
    words = ["--dir", str(tmp_path / "up"), "--output", str(tmp_path / "bundle.tar.gz")]
    assert main(["debug", "bundle", *words, "--bootstrap", f"127.0.0.1:{free_port()}"]) == 130
    assert not list(tmp_path.iterdir())
