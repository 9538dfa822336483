"""How ``tidelog user`` gets a password, and what it sends of it."""

import getpass
import io
import sys

import pytest

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.user import commands
from tidelog.errors import ErrorCode
from tidelog.security.scram import ITERATIONS_MIN, ScramMechanism


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def given(monkeypatch: pytest.MonkeyPatch, line: str) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    return commands._password()


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    left = list(words)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda _: left.pop(0))
    return commands._password()


@pytest.mark.parametrize("line", ["secret\n", "secret\r\n", "secret", "secret\nmore\n"])
def test_a_password_of_a_pipe_is_its_first_line(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    assert given(monkeypatch, line) == "secret"


def test_spaces_belong_to_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given(monkeypatch, " a b \n") == " a b "


def test_an_empty_password_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidCommandLine, match="empty"):
        given(monkeypatch, "\n")


def test_a_typed_password_is_typed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed(monkeypatch, "secret", "secret") == "secret"
    with pytest.raises(InvalidCommandLine, match="differ"):
        typed(monkeypatch, "secret", "secert")


def test_the_password_itself_is_not_sent() -> None:
    made, again = (
        commands._salted("bob", ScramMechanism.SCRAM_SHA_512, "secret", ITERATIONS_MIN) for _ in range(2)
    )
    assert not any(b"secret" in value for value in made.values() if isinstance(value, bytes))
    assert made["salt"] != again["salt"]
    assert made["salted_password"] != again["salted_password"]
    assert len(made["salted_password"]) == 64


def test_a_refusal_is_a_sentence() -> None:
    with pytest.raises(CommandFailed, match=r"^'bob' is not deleted: RESOURCE_NOT_FOUND"):
        commands._check(ErrorCode.RESOURCE_NOT_FOUND, None, "'bob' is not deleted")
    with pytest.raises(CommandFailed, match=r"^The user is not set: too few"):
        commands._check(ErrorCode.UNACCEPTABLE_CREDENTIAL, "too few", "the user is not set")
