"""Answers that wait until their controller is sure of itself."""

from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker.node.heartbeat_gate import HeartbeatGate
from tidelog.controller.messages import HeartbeatGot
from tidelog.errors import ErrorCode

OK = HeartbeatGot(4, 9, ErrorCode.NONE, fenced=False)


class Around:
    """An election that is confirmed up to some moment, and followers that can be prompted."""

    def __init__(self) -> None:
        self.confirmed = -1
        self.prompted: list[int] = []
        self.answers: list[HeartbeatGot] = []
        metadata = SimpleNamespace(voter=SimpleNamespace(confirmed_ms=lambda: self.confirmed))
        self.gate = HeartbeatGate(cast(Any, metadata), cast(Any, self))

    def confirm(self, driver: Any) -> None: ...

    def prompt(self, driver: Any, since_ms: int) -> None:
        self.prompted.append(since_ms)

    def ask(self, now_ms: int, got: HeartbeatGot = OK) -> None:
        self.gate.pass_on(now_ms, got, self.answers.append)


def test_an_answer_waits_for_a_majority_that_followed_since() -> None:
    around = Around()
    around.ask(100)
    assert around.answers == []
    assert around.prompted == [100]
    around.confirmed = 99
    around.gate.look()
    assert around.answers == []
    around.confirmed = 100
    around.gate.look()
    assert around.answers == [OK]
    assert not around.gate.holds


def test_later_ones_wait_on_and_are_asked_for() -> None:
    around = Around()
    around.ask(100)
    around.ask(120)
    around.confirmed = 110
    around.prompted.clear()
    around.gate.look()
    assert len(around.answers) == 1
    assert around.prompted == [120]


def test_a_refusal_does_not_wait() -> None:
    around = Around()
    refusal = OK._replace(error=ErrorCode.STALE_BROKER_EPOCH)
    around.ask(100, refusal)
    assert around.answers == [refusal]


def test_who_leads_no_more_says_so_to_all_that_wait() -> None:
    around = Around()
    around.ask(100)
    around.ask(120)
    around.gate.close()
    assert [got.error for got in around.answers] == [ErrorCode.NOT_CONTROLLER] * 2
