"""Which questions to the active controller wait for others."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tidelog.broker.node.controller_asks import ASKS_AT_ONCE, ControllerAsks
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import ControllerAsk, HeartbeatAsk, InSyncAsk
from tidelog.services import ignore
from unit.broker.fakes import FakeServices


def proposal(index: int) -> InSyncAsk:
    return InSyncAsk(InSyncProposal(1, 3, UUID(int=7), index, 5, 4, (1, 2)))


class Active:
    """The active controller's node; what it decides is recorded."""

    def __init__(self) -> None:
        self.services = FakeServices()
        self.decided: list[ControllerAsk] = []
        self.driver = SimpleNamespace(handle=lambda ask, now_ms, decided: self.decided.append(ask))
        self.asks = ControllerAsks(
            1, cast(Any, SimpleNamespace(leader=1)), cast(Any, self.driver), cast(Any, None),
            cast(Any, self.services), cast(Any, None), ignore,
        )  # fmt: skip

    def turn(self) -> None:
        self.services._soon.popleft()()


def test_proposals_of_this_node_are_decided_a_few_at_a_time() -> None:
    active = Active()
    for index in range(100 * ASKS_AT_ONCE):
        active.asks.ask(proposal(index))
    active.turn()
    assert len(active.decided) == ASKS_AT_ONCE


def test_a_heartbeat_of_this_node_does_not_wait_for_proposals() -> None:
    """Otherwise the controllers' own broker loses its session when thousands of partitions propose."""
    active = Active()
    for index in range(100 * ASKS_AT_ONCE):
        active.asks.ask(proposal(index))
    heartbeat = HeartbeatAsk(1, 3, 0)
    active.asks.ask(heartbeat)
    active.turn()
    assert heartbeat in active.decided


def test_a_question_that_follows_from_a_response_has_its_own_turn() -> None:
    active = Active()
    heartbeat = HeartbeatAsk(1, 3, 0)

    def handle(ask: ControllerAsk, now_ms: float, decided: object) -> None:
        active.decided.append(ask)
        active.asks.ask(heartbeat)

    active.driver.handle = handle
    active.asks.ask(heartbeat)
    active.turn()
    assert active.decided == [heartbeat]
    active.turn()
    assert active.decided == [heartbeat, heartbeat]
