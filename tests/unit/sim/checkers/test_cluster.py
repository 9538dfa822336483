"""Which replicas have restored what they lost: by what the controllers decide, and about which process."""

from types import SimpleNamespace
from typing import cast
from unittest.mock import patch
from uuid import UUID

import pytest

from tidelog.broker.node.node import Node
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.sim.checkers.cluster import ClusterChecker
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.world import World

KEY: Key = (UUID(int=1), 0)
BEFORE, AFTER = UUID(int=10), UUID(int=11)  # processes of broker 2
LAST = UUID(int=12)  # another one
MODES = ["isr", "primary-backup"]


class Cluster:
    """Brokers 1 and 2, one partition that broker 1 leads, and what the checkers see of them."""

    def __init__(self, mode: str, **configs: str) -> None:
        self._mode = mode
        self._configs = {name.replace("_", "."): value for name, value in configs.items()}
        self._offset = 0
        self.checker = ClusterChecker(World(1), list, lambda node_id: SimulatedDisk())

    def decide(self, process: UUID, *in_sync: int) -> None:
        """New metadata: the process that is registered as broker 2, and the in-sync set."""
        self._offset += 1
        partition = PartitionImage(
            (1, 2), in_sync, 1, 0, partition_epoch=self._offset, last_leader=1, mode=self._mode
        )
        brokers = {2: BrokerImage(2, process, "h", 9092, None)}
        topics = {"t": TopicImage("t", KEY[0], (partition,), self._configs)}
        image = ClusterImage("", brokers, topics, {KEY[0]: "t"})
        node = SimpleNamespace(me=1, metadata=SimpleNamespace(committed_offset=self._offset))
        self.checker.applied(cast(Node, node), image)

    def lose_power(self, end: int = 0, *, disk_too: bool = False) -> None:
        """Broker 2 loses power, and its log ends there."""
        with patch("tidelog.sim.checkers.cluster.end_on_disk", return_value=end):
            self.checker.power_lost(2, SimulatedDisk(), {}, disk_too=disk_too)

    def lose_disk_and_join_late(self) -> None:
        """Broker 2 has another disk, catches up, and loses power. Then it becomes a member for what it had
        caught up with. No other metadata arrives in between.
        """
        self.decide(BEFORE, 1, 2)
        self.lose_power(disk_too=True)
        self.decide(AFTER, 1)
        self.lose_power(22)
        self.decide(AFTER, 1, 2)

    def lacks(self) -> bool:
        """Whether broker 2 may lack something."""
        return 2 in self.checker.losses.of(KEY)


@pytest.fixture(params=MODES)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(request.param)


def test_a_replica_that_joins_after_it_has_registered_again_has_caught_up(cluster: Cluster) -> None:
    cluster.decide(BEFORE, 1, 2)
    cluster.lose_power()
    cluster.decide(AFTER, 1)
    assert cluster.lacks()
    cluster.decide(AFTER, 1, 2)
    assert not cluster.lacks()


def test_a_replica_that_joins_for_a_fetch_before_its_loss_has_not(cluster: Cluster) -> None:
    """It was behind, caught up, and lost power; then the controllers hear that it caught up."""
    cluster.decide(BEFORE, 1)
    cluster.lose_power()
    cluster.decide(BEFORE, 1)
    cluster.decide(BEFORE, 1, 2)
    assert cluster.lacks()


def test_such_a_replica_restores_it_when_it_is_back(cluster: Cluster) -> None:
    cluster.decide(BEFORE, 1)
    cluster.lose_power()
    cluster.decide(BEFORE, 1)
    cluster.decide(BEFORE, 1, 2)
    cluster.decide(AFTER, 1)
    assert cluster.lacks()
    cluster.decide(AFTER, 1, 2)
    assert not cluster.lacks()


def test_a_second_loss_counts_like_the_first(cluster: Cluster) -> None:
    cluster.decide(BEFORE, 1)
    cluster.lose_power()
    cluster.decide(AFTER, 1)
    cluster.lose_power()
    cluster.decide(AFTER, 1)
    cluster.decide(AFTER, 1, 2)
    assert cluster.lacks()


def test_what_it_had_restored_before_its_loss_is_restored(cluster: Cluster) -> None:
    """It lost everything, caught up, synced some of it, and lost the rest."""
    cluster.decide(BEFORE, 1, 2)
    cluster.lose_power()
    cluster.decide(AFTER, 1)
    cluster.lose_power(22)
    assert cluster.checker.losses.of(KEY)[2] == 0
    cluster.decide(AFTER, 1)
    cluster.decide(AFTER, 1, 2)
    assert cluster.checker.losses.of(KEY)[2] == 22


def test_another_loss_before_it_joins_does_not_hide_that_it_joined(cluster: Cluster) -> None:
    cluster.lose_disk_and_join_late()
    assert cluster.checker.losses.tails(KEY) == {2: 22}


def test_a_synced_member_that_had_another_disk_before_it_joined_may_be_trusted() -> None:
    cluster = Cluster("isr", flush_messages="1")
    cluster.lose_disk_and_join_late()
    cluster.decide(LAST, 1, 2)
    cluster.checker.confessed(2)
    assert not cluster.checker.losses.real(KEY)


def test_a_member_that_lost_its_tail_before_it_joined_may_not() -> None:
    cluster = Cluster("isr")
    cluster.lose_disk_and_join_late()
    cluster.decide(LAST, 1, 2)
    with pytest.raises(Violation, match="trusted on"):
        cluster.checker.confessed(2)


def test_a_synced_member_that_has_another_disk_since_may_not() -> None:
    cluster = Cluster("isr", flush_messages="1")
    cluster.lose_disk_and_join_late()
    cluster.lose_power(disk_too=True)
    cluster.decide(LAST, 1, 2)
    with pytest.raises(Violation, match="trusted on"):
        cluster.checker.confessed(2)
