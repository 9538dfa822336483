"""Watching a reassignment while brokers and controllers die."""

import time
from collections.abc import Iterator

import pytest

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import Moving
from tidelog.cli.failure import CommandFailed
from tidelog.cli.topic import reassign
from tidelog.cli.topic.reassign import _left

MOVE = Moving("orders", 0, [1, 2, 3], [3], [1])


class FakeClient:
    def __init__(self, _bootstrap: str) -> None:
        pass

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *_error: object) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(reassign, "ClusterClient", FakeClient)
    return now


@pytest.mark.usefixtures("clock")
def test_another_broker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[list[Moving] | None] = iter([[MOVE], None, None, [MOVE], []])

    def moving(_client: object) -> list[Moving]:
        answer = next(answers)
        if answer is None:
            raise CommandFailed("The connection was lost.")
        return answer

    monkeypatch.setattr(cluster_admin, "moving", moving)
    assert list(_left("a:1", {MOVE.name})) == [1, 1]


def test_it_is_given_up_after_a_while_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    def moving(_client: object) -> list[Moving]:
        raise CommandFailed("The connection was lost.")

    monkeypatch.setattr(cluster_admin, "moving", moving)
    with pytest.raises(CommandFailed, match=r"lost\. What was started goes on .* and --cancel ends it"):
        list(_left("a:1", {MOVE.name}))
    assert 10 < clock[0] < 11
