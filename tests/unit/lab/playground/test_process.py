"""Lines in, lines out."""

import json
from typing import Any

import pytest

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.playground.ground import Ground, Refused
from tidelog.lab.playground.process import Lines, addresses_of, respond


class Kept(Lines):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def write(self, message: dict[str, Any]) -> None:
        self.lines.append(json.loads(json.dumps(message)))


class Fails(Ground):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def act(self, command: Any) -> str:
        raise self._error


@pytest.mark.parametrize("error", [Refused("No load runs."), FaultError("Broker 2 does not run.")])
def test_a_refusal_is_a_sentence(error: Exception) -> None:
    lines = Kept()
    respond(Fails(error), {"id": 7, "action": "stop"}, lines)
    assert lines.lines == [{"answer": 7, "error": str(error)}]


def test_whatever_happens_there_is_an_answer() -> None:
    lines = Kept()
    respond(Fails(KeyError("x")), {"id": 8}, lines)
    assert lines.lines[0]["answer"] == 8
    assert lines.lines[0]["error"].startswith("That failed")


def test_addresses() -> None:
    assert addresses_of("1@127.0.0.1:9092,12@[::1]:9093") == {1: ("127.0.0.1", 9092), 12: ("::1", 9093)}
