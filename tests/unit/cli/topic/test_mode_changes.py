"""Changing a topic's mode: settings without meaning in the new one go only with the user's consent."""

from typing import Any, cast

import pytest
import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.topic import mode_changes as topic_modes

ADMIN = cast("Any", None)
OWN = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true", "segment.ms": "10"}


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_admin, "own_settings", lambda admin, name: OWN)


def terminal(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def confirm(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


@pytest.mark.parametrize(
    ("mode", "settings", "unset", "gone"),
    [
        ("quorum", {}, (), ["min.insync.replicas", "unclean.leader.election.enable"]),
        ("primary-backup", {}, (), ["unclean.leader.election.enable"]),
        ("isr", {}, (), []),
        ("no such mode", {}, (), []),
        # What the command says itself is not decided for it.
        ("quorum", {"min.insync.replicas": "3"}, ("unclean.leader.election.enable",), []),
    ],
)
def test_with_consent_given_beforehand(
    mode: str, settings: dict[str, str], unset: tuple[str, ...], gone: list[str]
) -> None:
    assert topic_modes.unset_for(ADMIN, "t", mode, settings, unset, yes=True) == gone


def test_without_a_terminal_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(CommandFailed) as refusal:
        topic_modes.unset_for(ADMIN, "t", "quorum", {}, ["unclean.leader.election.enable"], yes=False)
    assert str(refusal.value) == (
        "min.insync.replicas has no meaning in mode quorum: a write is acknowledged when a majority of the "
        "replicas has it. t has min.insync.replicas=2. Nothing was changed; add --unset min.insync.replicas, "
        "or --yes for all of it."
    )


def test_at_a_terminal_the_user_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = terminal(monkeypatch, answer=True)
    gone = topic_modes.unset_for(ADMIN, "t", "primary-backup", {}, (), yes=False)
    assert gone == ["unclean.leader.election.enable"]
    assert asked == ["Unset unclean.leader.election.enable?"]
    assert "there is no leader election" in capsys.readouterr().out


def test_a_no_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, answer=False)
    with pytest.raises(CommandFailed, match="Nothing was changed"):
        topic_modes.unset_for(ADMIN, "t", "quorum", {}, (), yes=False)
