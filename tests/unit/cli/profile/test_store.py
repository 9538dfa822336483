"""Clusters by name."""

from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.failure import CommandFailed
from tidelog.cli.profile import store
from tidelog.cli.reach import DEFAULT_BOOTSTRAP, addresses_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(store.VARIABLE, raising=False)
    return tmp_path


def test_a_profile_replaces_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.active_bootstrap() is None
    assert main(["profile", "add", "one", "--bootstrap", "a:1"]) == 0
    assert main(["profile", "add", "two", "--bootstrap", "b:2,c:3"]) == 0
    assert store.active_bootstrap() is None
    assert main(["profile", "use", "two"]) == 0
    assert addresses_of(DEFAULT_BOOTSTRAP) == [("b", 2), ("c", 3)]
    assert addresses_of("d:4") == [("d", 4)]
    monkeypatch.setenv(store.VARIABLE, "one")
    assert addresses_of(DEFAULT_BOOTSTRAP) == [("a", 1)]


def test_a_removed_profile_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    main(["profile", "add", "one", "--bootstrap", "a:1"])
    main(["profile", "use", "one"])
    assert main(["profile", "remove", "one"]) == 0
    assert store.active_bootstrap() is None
    assert main(["profile", "remove", "one"]) == 1
    assert "There is no profile 'one'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"), [(["use", "none"], 1), (["add", "bad", "--bootstrap", "nowhere"], 2)]
)
def test_wrong_names_and_addresses(words: list[str], code: int) -> None:
    assert main(["profile", *words]) == code


def test_a_broken_file_is_named(home: Path) -> None:
    path = store.path()
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(CommandFailed, match=r"profiles\.json cannot be read"):
        store.active_bootstrap()


def test_a_name_that_only_the_variable_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.VARIABLE, "gone")
    with pytest.raises(CommandFailed, match="There is no profile 'gone'"):
        store.active_bootstrap()


@pytest.mark.parametrize(
    "content", ["[]", '{"profiles": {"one": "nowhere"}}', '{"profiles": [], "active": []}', '{"profiles": 1}']
)
def test_a_file_with_something_else_is_named(home: Path, content: str) -> None:
    path = store.path()
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(CommandFailed, match=r"profiles\.json cannot be read"):
        addresses_of(DEFAULT_BOOTSTRAP)
