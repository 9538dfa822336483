"""Answers that name leaders, in the moment after one of them has died."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.clients.successors import LOOK_ROUND_MS, SUCCESSOR_WITHIN_MS
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker, value_of

OTHER = 2
AT_ONCE_MS = LOOK_ROUND_MS + 5
TIME_OVER_MS = LOOK_ROUND_MS + SUCCESSOR_WITHIN_MS + 25
ASKED: dict[str, list[dict[str, str]] | None] = {"by name": [{"name": "orders"}], "for all": None}


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.submit(BrokerRegistered(OTHER, UUID(int=2), "other", 9093))
    broker.create("orders")
    lead(broker, "orders", OTHER, 4)
    return broker


def lead(broker: FakeBroker, topic: str, leader: int, epoch: int) -> None:
    for index in range(len(broker.store.image.topics[topic].partitions)):
        change = PartitionChanged(
            broker.topic_id(topic), index, leader, epoch, [ME, OTHER], [], leader, False, [ME, OTHER]
        )
        broker.submit(change)
    broker.services.settle()


def named(answer: Any) -> tuple[int, int, int]:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition.error_code, partition.leader_id, partition.leader_epoch


@pytest.mark.parametrize("asked", ASKED)
class TestMetadata:
    def test_names_a_leader_that_lives(self, broker: FakeBroker, asked: str) -> None:
        assert named(broker.call_within(AT_ONCE_MS, "metadata", topics=ASKED[asked])) == (0, OTHER, 4)

    def test_waits_for_the_successor_of_one_that_died(self, broker: FakeBroker, asked: str) -> None:
        broker.broker.lost_brokers = {OTHER}
        answer = broker.begin("metadata", topics=ASKED[asked])
        broker.services.advance(SUCCESSOR_WITHIN_MS // 2)
        assert not answer.is_complete
        lead(broker, "orders", ME, 5)
        broker.services.advance(AT_ONCE_MS + 20)
        assert named(value_of(answer)) == (0, ME, 5)

    def test_the_client_may_see_the_death_first(self, broker: FakeBroker, asked: str) -> None:
        answer = broker.begin("metadata", topics=ASKED[asked])
        broker.services.advance(LOOK_ROUND_MS - 1)
        broker.broker.lost_brokers = {OTHER}
        broker.services.advance(AT_ONCE_MS)
        assert not answer.is_complete

    def test_what_has_arrived_is_read_before_it_is_answered(self, broker: FakeBroker, asked: str) -> None:
        """The process stood still: its timer is due before it has read that connections closed."""
        answer = broker.begin("metadata", topics=ASKED[asked])
        broker.services.advance(LOOK_ROUND_MS)
        broker.broker.lost_brokers = {OTHER}
        broker.services.advance(AT_ONCE_MS)
        assert not answer.is_complete

    def test_says_that_nobody_leads_when_there_is_no_successor(self, broker: FakeBroker, asked: str) -> None:
        broker.broker.lost_brokers = {OTHER}
        answer = broker.call_within(TIME_OVER_MS, "metadata", topics=ASKED[asked])
        assert named(answer) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 4)

    def test_a_decision_that_nobody_leads_is_told_at_once(self, broker: FakeBroker, asked: str) -> None:
        broker.broker.lost_brokers = {OTHER}
        lead(broker, "orders", -1, 5)
        answer = broker.call_within(AT_ONCE_MS, "metadata", topics=ASKED[asked])
        assert named(answer) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 5)


def test_metadata_of_other_topics_does_not_wait(broker: FakeBroker) -> None:
    broker.create("lines")
    lead(broker, "lines", ME, 2)
    broker.broker.lost_brokers = {OTHER}
    answer = broker.call_within(AT_ONCE_MS, "metadata", topics=[{"name": "lines"}])
    assert named(answer) == (0, ME, 2)


def test_topics_in_pages_do_not_name_the_dead(broker: FakeBroker) -> None:
    broker.broker.lost_brokers = {OTHER}
    answer = broker.call(
        "describe_topic_partitions", topics=[{"name": "orders"}], response_partition_limit=10
    )
    assert named(answer) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 4)


class TestFindCoordinator:
    @pytest.fixture
    def broker(self, broker: FakeBroker) -> FakeBroker:
        self.find(broker, AT_ONCE_MS)
        lead(broker, CONSUMER_OFFSETS, OTHER, 4)
        return broker

    def find(self, broker: FakeBroker, within_ms: int) -> tuple[int, int]:
        answer = broker.call_within(within_ms, "find_coordinator", key_type=0, coordinator_keys=["g"])
        (found,) = answer.coordinators
        return found.error_code, found.node_id

    def test_names_one_that_lives(self, broker: FakeBroker) -> None:
        assert self.find(broker, AT_ONCE_MS) == (0, OTHER)

    def test_waits_for_the_successor_of_one_that_died(self, broker: FakeBroker) -> None:
        broker.broker.lost_brokers = {OTHER}
        answer = broker.begin("find_coordinator", key_type=0, coordinator_keys=["g"])
        broker.services.advance(AT_ONCE_MS)
        assert not answer.is_complete
        lead(broker, CONSUMER_OFFSETS, ME, 5)
        broker.services.advance(AT_ONCE_MS)
        assert value_of(answer).coordinators[0].node_id == ME

    def test_says_so_when_there_is_none(self, broker: FakeBroker) -> None:
        broker.broker.lost_brokers = {OTHER}
        assert self.find(broker, TIME_OVER_MS) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("asked", ASKED)
def test_those_who_waited_together_are_answered_in_turn(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """The members of a group that joins wait for the same leaders; each description takes 1 ms."""
    turns: list[object] = []
    in_turn = broker.services.in_turn

    def note(callback: Callable[[], None], *, urgent: bool = False) -> None:
        turns.append(callback)
        in_turn(callback, urgent=urgent)

    answers = [broker.begin("metadata", topics=ASKED[asked]) for _ in range(50)]
    monkeypatch.setattr(broker.services, "in_turn", note)
    broker.services.advance(AT_ONCE_MS)
    assert [named(value_of(answer)) for answer in answers] == [(0, OTHER, 4)] * 50
    assert len(turns) == 50
