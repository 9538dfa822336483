"""What real brokers tell a client that has just lost a leader: never the dead one again.

A client that heard of it in the epoch it knows already would ask again only by its own slow timer, so these
tests look at the answers and not at the clock.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.testing import Broker, Cluster, running_cluster

from .cluster_load import create_topic
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"
ROUNDS = 3
MODES = ("isr", "quorum", "primary-backup")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as cluster:
        yield cluster


def named(answer: Any) -> tuple[int, int]:
    (partition,) = answer.topics[0].partitions
    return partition.leader_id, partition.leader_epoch


def ask_all_when_closed(leader: Broker, others: list[Broker]) -> list[tuple[int, int]]:
    """Ask all others who leads, by name and for all topics, the moment the leader's connection closes."""
    lost = Wire(leader.bootstrap)
    lost.call("metadata", 12, topics=[{"name": TOPIC}])
    wires = [Wire(other.bootstrap) for other in others for _ in range(2)]
    wishes = [[{"name": TOPIC}], None] * len(others)
    for wire in wires:
        wire.call("metadata", 12, topics=[])
    leader.kill()
    lost.wait_until_closed()
    asked = [wire.send("metadata", 12, topics=wish) for wire, wish in zip(wires, wishes, strict=True)]
    answers = [wire.receive("metadata", 12, number) for wire, number in zip(wires, asked, strict=True)]
    for wire in (lost, *wires):
        wire.__exit__()
    return [named(answer) for answer in answers]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", MODES)
def test_a_dead_leader_is_not_named_again(cluster: Cluster, mode: str) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1, replication_mode=mode)
    for _ in range(ROUNDS):
        cluster.await_in_sync(TOPIC)
        leader, epoch = cluster.leader_of(TOPIC), cluster.partition(TOPIC).leader_epoch
        others = [broker for broker in cluster.running if broker is not leader]
        answers = ask_all_when_closed(leader, others)
        assert (leader.node_id, epoch) not in answers, answers
        leader.start()
        cluster.await_ready()
