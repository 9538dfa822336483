"""Who is said to lead a topic whose load runs."""

import pytest

from tidelog.client.cluster_view import PartitionView
from tidelog.lab.playground.load import TopicLoad
from tidelog.lab.playground.topics import topics_on

TOPICS = topics_on([1, 2, 3])


@pytest.mark.parametrize(
    ("topic", "state", "leader"),
    [
        ("asynchronous", "isolated", 1),  # It is the one who acknowledges.
        ("asynchronous", "returning", 1),
        ("asynchronous", "killed", 2),
        ("isr", "isolated", 2),
        ("quorum", "isolated", 2),
    ],
)
def test_a_primary_that_the_others_do_not_reach_still_leads_what_goes_on(
    topic: str, state: str, leader: int
) -> None:
    load = TopicLoad(topic, TOPICS[topic])
    load.view = PartitionView(2, 5, (1, 2, 3), (2, 3))  # as the other brokers tell it
    assert load.row({1: state, 2: "up", 3: "up"})["leader"] == leader
