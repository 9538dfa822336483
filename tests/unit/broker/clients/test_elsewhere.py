"""A leader without a session: it refuses its clients, and sends them elsewhere."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tidelog.broker.clients.elsewhere import EACH_FOR_MS
from tidelog.broker.clients.reachable import SHOWN_FOR_MS
from tidelog.broker.clients.successors import LOOK_ROUND_MS, SUCCESSOR_WITHIN_MS
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.controller.records import BrokerFencingChanged, BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from tidelog.replication.attachments.successors import Successors
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER
from unit.broker.fakes import ME, FakeBroker, records, value_of

OTHERS = [2, 3]
EPOCH = 4
AT_ONCE_MS = LOOK_ROUND_MS + 5
TIME_OVER_MS = LOOK_ROUND_MS + SUCCESSOR_WITHIN_MS + 25
ORDERS = [{"name": "orders"}]


@pytest.fixture
def broker() -> FakeBroker:
    """It leads, and has not heard from the controllers for a session."""
    broker = FakeBroker()
    broker.submit(*(BrokerRegistered(each, UUID(int=each), "other", 9092) for each in OTHERS))
    broker.create("orders")
    lead(broker, "orders", ME, EPOCH)
    broker.alone = True
    return broker


def lead(
    broker: FakeBroker, topic: str, leader: int, epoch: int, replicas: Sequence[int] = (ME, *OTHERS)
) -> None:
    replicas = list(replicas)
    for index in range(len(broker.store.image.topics[topic].partitions)):
        broker.submit(
            PartitionChanged(
                broker.topic_id(topic), index, leader, epoch, replicas, [], leader, False, replicas
            )
        )
    broker.services.settle()


def named(answer: Any) -> tuple[int, int, int]:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition.error_code, partition.leader_id, partition.leader_epoch


def ask(broker: FakeBroker) -> Any:
    return broker.call_within(TIME_OVER_MS, "metadata", topics=ORDERS)


def listed(answer: Any) -> list[int]:
    return sorted(each.node_id for each in answer.brokers)


def test_it_refuses_clients_and_does_not_send_them_to_itself(broker: FakeBroker) -> None:
    (answer,) = broker.produce(("orders", 0, records(b"x")))
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    found = ask(broker)
    assert named(found) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER, EPOCH)
    assert listed(found) == OTHERS


def test_a_client_that_it_serves_keeps_it(broker: FakeBroker) -> None:
    """Nobody can lead in its place where there is no other replica."""
    broker.create("mine")
    lead(broker, "mine", ME, EPOCH, [ME])
    answer = broker.call_within(TIME_OVER_MS, "metadata", topics=[*ORDERS, {"name": "mine"}])
    assert [topic.partitions[0].leader_id for topic in answer.topics] == [NO_BROKER, ME]
    assert listed(answer) == [ME, *OTHERS]


def test_only_the_topics_of_the_request_count(broker: FakeBroker) -> None:
    """A client that asks for one topic at a time leaves this broker, whatever else it gets from it."""
    broker.create("mine")
    lead(broker, "mine", ME, EPOCH, [ME])
    assert listed(ask(broker)) == OTHERS
    answer = broker.call_within(TIME_OVER_MS, "metadata", topics=[{"name": "mine"}])
    assert (answer.topics[0].partitions[0].leader_id, listed(answer)) == (ME, [ME, *OTHERS])


def test_partitions_that_others_gave_up_do_not_count(broker: FakeBroker) -> None:
    """The controllers are gone, and a leader with them: this broker serves other clients on."""
    lead(broker, "orders", OTHERS[0], EPOCH + 1)
    broker.broker.lost_brokers = {OTHERS[0]}
    found = ask(broker)
    assert (named(found)[:2], listed(found)) == ((ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER), [ME, *OTHERS])


def test_with_no_other_broker_it_stays_in_the_list(broker: FakeBroker) -> None:
    """Clients ignore an empty list."""
    broker.submit(*(BrokerFencingChanged(each, fenced=True) for each in OTHERS))
    broker.services.advance(SHOWN_FOR_MS)
    assert listed(ask(broker)) == [ME]


@pytest.mark.parametrize("topics", [ORDERS, None], ids=["by name", "for all"])
def test_first_it_waits_for_news(broker: FakeBroker, topics: list[dict[str, str]] | None) -> None:
    """A process that was frozen hears within milliseconds whether it still leads."""
    answer = broker.begin("metadata", topics=topics)
    broker.services.advance(SUCCESSOR_WITHIN_MS // 2)
    assert not answer.is_complete
    broker.alone = False
    broker.services.advance(AT_ONCE_MS + 20)
    assert named(value_of(answer)) == (0, ME, EPOCH)


def test_a_successor_that_it_hears_of_is_named(broker: FakeBroker) -> None:
    answer = broker.begin("metadata", topics=ORDERS)
    broker.services.advance(SUCCESSOR_WITHIN_MS // 2)
    lead(broker, "orders", OTHERS[1], EPOCH + 1)
    broker.services.advance(AT_ONCE_MS)
    assert named(value_of(answer)) == (0, OTHERS[1], EPOCH + 1)


def test_while_all_follow_it_leads(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controllers are gone, and no other broker can have been appointed."""
    monkeypatch.setattr(Successors, "all_follow", lambda successors, *, by_hand=False: True)
    answer = broker.call_within(AT_ONCE_MS, "metadata", topics=ORDERS)
    assert named(answer) == (0, ME, EPOCH)


def test_with_a_session_it_would_know_the_leader(broker: FakeBroker) -> None:
    broker.alone = False
    lead(broker, "orders", NO_BROKER, EPOCH + 1)
    found = ask(broker)
    assert named(found) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER, EPOCH + 1)
    assert listed(found) == [ME, *OTHERS]


def test_changes_of_the_cluster_are_taken_elsewhere(broker: FakeBroker) -> None:
    """Every broker forwards them, and this one may reach no controller."""
    assert ask(broker).controller_id in OTHERS
    broker.alone = False
    assert ask(broker).controller_id == ME


class TestCoordinators:
    @pytest.fixture
    def broker(self, broker: FakeBroker) -> FakeBroker:
        broker.alone = False
        broker.call_within(AT_ONCE_MS, "find_coordinator", key_type=0, coordinator_keys=["g"])
        lead(broker, CONSUMER_OFFSETS, ME, EPOCH)
        broker.alone = True
        return broker

    def find(self, broker: FakeBroker) -> tuple[int, int]:
        answer = broker.call_within(TIME_OVER_MS, "find_coordinator", key_type=0, coordinator_keys=["g"])
        (found,) = answer.coordinators
        return found.error_code, found.node_id

    def test_each_other_replica_is_named_in_turn(self, broker: FakeBroker) -> None:
        """The first one may be down."""
        found = set()
        for _ in OTHERS:
            found.add(self.find(broker))
            broker.services.advance(EACH_FOR_MS - TIME_OVER_MS)
        assert found == {(0, each) for each in OTHERS}

    def test_one_that_is_known_to_be_down_is_not_named(self, broker: FakeBroker) -> None:
        fenced, lost = OTHERS
        broker.submit(BrokerFencingChanged(fenced, fenced=True))
        broker.broker.lost_brokers = {lost}
        assert self.find(broker) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_BROKER)


def test_an_elected_leader_that_stepped_down_does_not_name_itself(broker: FakeBroker) -> None:
    """The metadata names the winner of the last election, and this broker knows of no other."""
    configs = [{"name": "replication.mode", "value": "quorum"}]
    topic = {"name": "votes", "num_partitions": 1, "replication_factor": 3, "configs": configs}
    broker.call("create_topics", topics=[topic])
    replica = broker.partition("votes").replica
    assert (replica.role, replica.leader) == (Role.FOLLOWER, NO_BROKER)
    topic_image = broker.store.image.topics["votes"]
    for winner, expected in ((ME, NO_BROKER), (OTHERS[0], OTHERS[0])):
        elected = msgspec.structs.replace(
            topic_image.partitions[0], leader=winner, leader_epoch=replica.epoch
        )
        assert broker.partitions.quorum.view((topic_image.topic_id, 0), elected).leader == expected
