"""Files for one machine of a cluster."""

from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.settings import read_broker_settings
from tidelog.config import BrokerConfig

VOTERS = "1@a:9092,2@b:9092,3@c:9092"


def test_the_file_is_one_that_a_broker_takes(tmp_path: Path) -> None:
    words = ["--node-id", "2", "--address", "b:9092", "--voters", VOTERS, "--dir", str(tmp_path)]
    assert main(["broker", "init", *words]) == 0
    config = BrokerConfig.parse(read_broker_settings(tmp_path / "broker.toml"))
    assert config.node_id == 2
    assert str(config.advertised_listeners[0]).endswith("b:9092")
    unit = (tmp_path / "tidelog.service").read_text()
    assert "LimitNOFILE=" in unit
    assert "Type=notify" in unit


def test_nothing_is_overwritten_without_consent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broker.toml").write_text("mine")
    assert main(["broker", "init", "--dir", str(tmp_path)]) == 1
    assert "exists; pass --yes" in capsys.readouterr().err
    assert (tmp_path / "broker.toml").read_text() == "mine"
    assert not (tmp_path / "tidelog.service").exists()
    assert main(["broker", "init", "--dir", str(tmp_path), "--yes"]) == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--address", "nowhere"], "--address"),
        (["--voters", "nonsense"], "controller.quorum.voters"),
        (["--address", "a:9092", "--voters", "1@b:9092"], "they must be the same"),
    ],
)
def test_wrong_values(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", "init", "--dir", str(tmp_path / "new"), *words]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_directory_with_quotes_in_its_name(tmp_path: Path) -> None:
    assert main(["broker", "init", "--dir", str(tmp_path), "--data", 'my "new" disk']) == 0
    config = BrokerConfig.parse(read_broker_settings(tmp_path / "broker.toml"))
    assert config.log_dir.endswith('my "new" disk')
