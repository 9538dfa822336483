"""The operator of a simulation decides what the documentation leaves to one."""

from tidelog.controller.successions import acting_leader
from tidelog.controller.topics import TopicWish
from tidelog.sim.cluster import SimCluster
from tidelog.sim.operator import Operator


def lost_disk(copies: str) -> SimCluster:
    """Broker 1's disk is replaced, and before anybody has noticed it becomes the primary of a new topic."""
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.world.run_until(cluster.world.now_ms + 3000)
    cluster.machines[1].lose_disk()
    settings = {"replication.mode": "primary-backup", "min.insync.replicas": copies}
    cluster.create_topic(TopicWish("t", -1, -1, {0: [1, 2, 3]}, settings))
    cluster.world.run_until(cluster.world.now_ms + 200)
    cluster.machines[1].start()
    cluster.world.run_until(cluster.world.now_ms + 6000)
    return cluster


def leads(cluster: SimCluster) -> bool:
    return acting_leader(cluster.checker.metadata.newest.topics["t"].partitions[0]) == 1


def test_a_replaced_disk_where_one_copy_was_enough_is_its_decision() -> None:
    cluster = lost_disk("1")
    assert not leads(cluster)
    Operator(cluster).start()
    cluster.world.run_until(cluster.world.now_ms + 4000)
    assert leads(cluster)


def test_with_two_copies_nobody_is_asked() -> None:
    cluster = lost_disk("2")
    assert leads(cluster)
