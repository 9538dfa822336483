"""No test of a command depends on the user's profiles and variables, or on what an earlier test asked for."""

from pathlib import Path

import pytest

from tidelog.cli import client_config


@pytest.fixture(autouse=True)
def _no_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(_home(tmp_path_factory)))
    for name in ("TIDELOG_BOOTSTRAP", "TIDELOG_CONFIG", "TIDELOG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(client_config, "_chosen", None)
    monkeypatch.setattr(client_config, "_named", None)


def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "no-home"  # It does not exist.
