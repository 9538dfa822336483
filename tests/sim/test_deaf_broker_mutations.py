"""A broker that hears of no decision keeps its session, or its elected leaderships: a story notices."""

from collections.abc import Callable

import pytest

from tidelog.broker.node.lifecycle import BrokerLifecycle
from tidelog.broker.node.node import Node
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.sim.stories import deaf_brokers
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed


@pytest.mark.parametrize(
    ("story", "failure"),
    [
        (deaf_brokers.client_of_the_old_leader, "56 and not 6"),
        (deaf_brokers.idle_replica_is_not_appointed, "the end of A's session"),
        (deaf_brokers.idle_leader_of_voters, "an election"),
    ],
)
def test_a_broker_that_keeps_its_session_is_noticed(
    monkeypatch: pytest.MonkeyPatch, story: Callable[[], Story], failure: str
) -> None:
    monkeypatch.setattr(Node, "_leave_to_others", lambda self: None)
    with pytest.raises(StoryFailed, match=failure):
        story()


def test_one_that_only_stops_its_heartbeats_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerLifecycle, "give_up", BrokerLifecycle.stop)
    with pytest.raises(StoryFailed, match="56 and not 6"):
        deaf_brokers.client_of_the_old_leader()


def test_one_that_goes_on_leading_voters_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumPartitions, "retire", lambda self: None)
    with pytest.raises(StoryFailed, match="an election"):
        deaf_brokers.idle_leader_of_voters()
