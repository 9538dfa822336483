"""Decisions of the controllers that are committed together: the checkers judge losses by each of them."""

from types import SimpleNamespace
from typing import cast
from unittest.mock import patch
from uuid import UUID

from tidelog.broker.node.node import Node
from tidelog.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.errors import ErrorCode
from tidelog.sim.checkers.cluster import ClusterChecker
from tidelog.sim.checkers.metadata import MetadataChecker, decisions
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.story import Story
from tidelog.sim.telling import expect
from tidelog.sim.world import World

KEY: Key = (UUID(int=1), 0)
BROKER = BrokerImage(2, UUID(int=10), "h", 9092, None)


def image(epoch: int, *in_sync: int, leader: int = -1) -> ClusterImage:
    partition = PartitionImage((1, 2), in_sync, leader, epoch, partition_epoch=epoch, last_leader=2)
    topic = TopicImage("t", KEY[0], (partition,), {})
    return ClusterImage("", {2: BROKER}, {"t": topic}, {KEY[0]: "t"})


class Cluster:
    """Brokers 1 and 2 are in sync, 1 leads, and 2 loses power: its log ends at 3."""

    def __init__(self) -> None:
        self.checker = ClusterChecker(World(1), list, lambda node: SimulatedDisk())
        self.forgiven: list[int] = []
        promise = self.checker._promises["isr"]
        promise._around = promise._around._replace(forgive=lambda place, floor: self.forgiven.append(floor))
        self.apply(image(0, 1, 2, leader=1))
        with patch("tidelog.sim.checkers.cluster.end_on_disk", return_value=3):
            self.checker.power_lost(2, SimulatedDisk(), {})

    def apply(self, newest: ClusterImage, *between: ClusterImage) -> None:
        offset = self.checker.metadata.newest_offset + 1 + len(between)
        node = SimpleNamespace(me=1, metadata=SimpleNamespace(committed_offset=offset))
        with patch.object(self.checker, "_between", return_value=between):
            self.checker.applied(cast(Node, node), newest)


def test_the_last_member_lost_power() -> None:
    """That it was the last one, and that it lost power, is committed at once."""
    cluster = Cluster()
    cluster.apply(image(2), image(1, 2, leader=2))
    assert cluster.forgiven == [3]


def test_a_member_lost_power_and_another_one_did_not() -> None:
    cluster = Cluster()
    cluster.apply(image(2), image(1, 1, 2, leader=2))
    assert cluster.forgiven == []


def test_they_are_told_in_order_if_the_topic_changed() -> None:
    checker, told = MetadataChecker(), list[int]()
    checker.on_passed = lambda topic, index, state: told.append(state.partition_epoch)
    first, newest = image(0), image(3)
    checker.applied(1, 1, first)
    checker.applied(1, 5, newest, [first, image(1), image(2), newest])
    assert told == [1, 2]


def test_they_are_read_from_the_log() -> None:
    story = Story()
    expect(story.write(), ErrorCode.NONE)
    story.kill("B")
    story.until(lambda: story.in_sync() == "AC", "the departure of B")
    node = story.machine("X").node
    assert node is not None
    log, end_offset = node.metadata.driver.log, node.metadata.committed_offset
    found = [*decisions(log, ClusterImage(), log.start_offset, end_offset)]
    assert found[-1] == node.metadata.image
    states = [each.topics["t"].partitions[0].in_sync for each in found if "t" in each.topics]
    assert [len(members) for members in dict.fromkeys(states)] == [3, 2]
    assert [*decisions(log, ClusterImage(), log.start_offset - 1, end_offset)] == []
