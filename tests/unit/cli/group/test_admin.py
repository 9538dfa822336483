"""Requests to a coordinator that has just moved."""

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.group import admin


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the coordinator says, one after another: a Kafka error by its name, or an answer."""
    left: list[Any] = []

    def wait(_: Any) -> Any:
        answer = left.pop(0)
        if isinstance(answer, str):
            raise CommandFailed(answer, answer)
        return answer

    clock = iter(range(1000))
    monkeypatch.setattr(admin, "wait", wait)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 10)
    return left


def ask() -> Any:
    return admin._ask("g", lambda: {"g": Future()})


def test_a_coordinator_that_moves_is_asked_again(answers: list[Any]) -> None:
    answers += ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", 7]
    assert ask() == 7


def test_not_for_ever(answers: list[Any]) -> None:
    answers += ["NOT_COORDINATOR"] * 100
    with pytest.raises(CommandFailed, match="NOT_COORDINATOR"):
        ask()
    assert len(answers) > 50


def test_other_refusals_are_told_at_once(answers: list[Any]) -> None:
    answers += ["NON_EMPTY_GROUP", 7]
    with pytest.raises(CommandFailed, match="Group 'g' has members"):
        ask()
    assert answers == [7]


def told(error: str | None) -> SimpleNamespace:
    """The answer about one partition of a commit."""
    refusal = None if error is None else SimpleNamespace(name=lambda: error)
    return SimpleNamespace(topic_partitions=[SimpleNamespace(topic="t", partition=0, error=refusal)])


def commit() -> None:
    library = SimpleNamespace(alter_consumer_group_offsets=lambda wanted, request_timeout: {"g": Future()})
    admin.commit(cast(Any, library), "g", {("t", 0): 7})


def test_a_commit_that_a_moving_coordinator_refuses_is_repeated(answers: list[Any]) -> None:
    answers += [told("NOT_COORDINATOR"), told(None), "is not asked for"]
    commit()
    assert answers == ["is not asked for"]


def test_other_refusals_of_a_commit_are_told_at_once(answers: list[Any]) -> None:
    answers += [told("OFFSET_METADATA_TOO_LARGE"), told(None)]
    with pytest.raises(CommandFailed, match="t-0 was refused: OFFSET_METADATA_TOO_LARGE"):
        commit()
    assert len(answers) == 1
