"""What brokers and clients of a secured test cluster get."""

from pathlib import Path

import pytest

from tidelog.config import BrokerConfig
from tidelog.lab.local.entrance import OURS, Entrance


@pytest.mark.parametrize(
    ("tls", "users", "protocol"),
    [
        (True, None, "SSL"),
        (False, {"alice": "x"}, "SASL_PLAINTEXT"),
        (True, {"alice": "x"}, "SASL_SSL"),
    ],
)
def test_brokers_and_clients_agree(
    tmp_path: Path, tls: bool, users: dict[str, str] | None, protocol: str
) -> None:
    entrance = Entrance(tmp_path, tls=tls, users=users)
    settings = entrance.broker_settings(1, "127.0.0.1", 1)
    config = BrokerConfig.parse({"node.id": 1, **settings})
    assert config.listeners[0].protocol.name == protocol
    security = entrance.security()
    assert (security.tls is not None) == tls
    assert (security.sasl is not None) == (users is not None)


def test_an_open_cluster_has_nothing(tmp_path: Path) -> None:
    entrance = Entrance(tmp_path / "none")
    assert entrance.broker_settings(1, "127.0.0.1", 1) == {}
    assert entrance.security() == (None, None)
    assert not (tmp_path / "none").exists()


def test_users_are_in_a_file_of_their_own(tmp_path: Path) -> None:
    entrance = Entrance(tmp_path, users={"alice": "x:y"})
    path = Path(str(entrance.broker_settings(1, "127.0.0.1", 1)["sasl.users.file"]))
    assert path.stat().st_mode & 0o777 == 0o600
    assert "alice:x:y\n" in path.read_text()
    sasl = entrance.security("alice").sasl
    assert sasl is not None
    assert (sasl.username, sasl.password) == ("alice", "x:y")
    ours = entrance.security().sasl
    assert ours is not None
    assert ours.username == OURS
    assert len(ours.password) >= 24
