"""How many proposals are in flight at a time, and that none is forgotten."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tidelog.broker.node.proposals import IN_FLIGHT_MAX, PROPOSAL_REPEAT_MS, Proposals
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import ControllerAsk, InSyncAsk, InSyncGot
from tidelog.errors import ErrorCode
from tidelog.replication.effects import ProposeInSync
from unit.broker.fakes import FakeServices

TOPIC = UUID(int=7)
COUNT = 3 * IN_FLIGHT_MAX + 10


class Leader:
    """A broker that leads many partitions, each of which proposes a follower that has come back."""

    def __init__(self) -> None:
        self.services = FakeServices()
        self.sent: list[InSyncProposal] = []
        self.drivers = {(TOPIC, index): self._driver(index) for index in range(COUNT)}
        node = SimpleNamespace(
            me=1, broker_epoch=3, stopped=False, image=SimpleNamespace(topic_by_id=lambda _: None)
        )
        self.proposals = Proposals(
            cast(Any, node), cast(Any, self.drivers), cast(Any, self.services), self._ask_controller
        )

    def _driver(self, index: int) -> Any:
        pending = SimpleNamespace(pending=(1, 2))
        replica = SimpleNamespace(
            proposals=pending, partition_epoch=4, in_sync=(1,), invite=list, proposal_refused=lambda **_: []
        )
        return SimpleNamespace(key=(TOPIC, index), replica=replica, run=lambda _: None)

    def _ask_controller(self, ask: ControllerAsk) -> None:
        assert isinstance(ask, InSyncAsk)
        self.sent.append(ask.proposal)

    def propose_all(self) -> None:
        effect = ProposeInSync((1, 2), leader_epoch=5, partition_epoch=4)
        for driver in self.drivers.values():
            self.proposals.proposed(driver, effect, {1: 3, 2: 9})

    def take(self) -> list[InSyncProposal]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def leader() -> Leader:
    found = Leader()
    found.propose_all()
    return found


def test_only_a_part_is_in_flight(leader: Leader) -> None:
    assert len(leader.take()) == IN_FLIGHT_MAX


def test_a_response_makes_room_for_the_next_in_line(leader: Leader) -> None:
    first = leader.take()[0]
    leader.proposals.answered(InSyncGot(first, ErrorCode.NONE))
    assert [each.partition for each in leader.take()] == [IN_FLIGHT_MAX]


def test_without_responses_all_have_their_turn(leader: Leader) -> None:
    """Messages are lost, or there is no controller: nobody is passed over because others repeat."""
    asked: set[int] = set()
    for _ in range(-(-COUNT // IN_FLIGHT_MAX)):
        sent = leader.take()
        assert len(sent) <= IN_FLIGHT_MAX
        asked.update(each.partition for each in sent)
        leader.services.advance(PROPOSAL_REPEAT_MS)
    assert asked == set(range(COUNT))


def test_one_that_is_out_of_date_takes_no_place(leader: Leader) -> None:
    leader.take()
    for (_, index), driver in leader.drivers.items():
        driver.replica.partition_epoch += index < 2 * IN_FLIGHT_MAX
    leader.services.advance(PROPOSAL_REPEAT_MS)
    leader.services.advance(PROPOSAL_REPEAT_MS)
    assert {each.partition for each in leader.take()} == set(range(2 * IN_FLIGHT_MAX, COUNT))


def test_the_replica_of_one_that_is_out_of_date_proposes_again(leader: Leader) -> None:
    run: list[tuple[int, object]] = []
    for (_, index), driver in leader.drivers.items():
        driver.replica.invite = lambda: "invited"
        driver.run = lambda effects, index=index: run.append((index, effects))
    leader.drivers[TOPIC, 0].replica.partition_epoch += 1
    leader.services.advance(PROPOSAL_REPEAT_MS)
    leader.services.advance(PROPOSAL_REPEAT_MS)
    assert run == [(0, "invited")]
