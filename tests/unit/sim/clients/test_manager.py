"""The manager of a simulation does only what the documentation leaves to a user."""

from tidelog.controller import reassignment
from tidelog.controller.rules import Rulebook
from tidelog.controller.topics import NewTopic
from tidelog.sim.budget import Budget
from tidelog.sim.checkers.promises import Place
from tidelog.sim.clients.admin import Admin
from tidelog.sim.clients.manager import Manager
from tidelog.sim.cluster import SimCluster


def frozen_leader(*, knows: bool) -> SimCluster:
    """Broker 1 has the only replica and is frozen until it is fenced; another replica is added before that,
    or after.
    """
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.create_topic(NewTopic("t", -1, -1, {0: [1]}, {"replication.mode": "isr"}))
    cluster.world.run_until(cluster.world.now_ms + 3000)
    # What is to be copied never arrives, so that the move does not end.
    cluster.network.cut(2, 1)
    if knows:
        _move(cluster)
    cluster.machines[1].pause()
    if not knows:
        _move(cluster)
    cluster.world.run_until(cluster.world.now_ms + 12_000)
    assert _place(cluster).partition.leader < 0
    assert set(_place(cluster).partition.replicas) == {1, 2}
    return cluster


def _move(cluster: SimCluster) -> None:
    rules = Rulebook(cluster.config)
    cluster.decide(lambda image: reassignment.begin(image, "t", 0, [2], rules.at(image)))
    cluster.world.run_until(cluster.world.now_ms + 300)


def _place(cluster: SimCluster) -> Place:
    return Place(cluster.checker.metadata.newest.topics["t"], 0)


def force_blindly(cluster: SimCluster) -> int:
    """Who leads then."""
    admin = Admin(cluster, "t", cluster.config, "isr")
    Manager(cluster, admin, Budget(cluster, lambda: True), "t", 1, ()).force_blindly()
    cluster.world.run_until(cluster.world.now_ms + 300)
    return _place(cluster).partition.leader


def test_a_replica_that_the_frozen_leader_has_heard_of_is_forced() -> None:
    cluster = frozen_leader(knows=True)
    assert not cluster.is_led_unawares(_place(cluster))
    assert force_blindly(cluster) == 2


def test_a_replica_that_the_frozen_leader_has_not_heard_of_is_not_forced() -> None:
    cluster = frozen_leader(knows=False)
    assert cluster.is_led_unawares(_place(cluster))
    assert force_blindly(cluster) < 0
