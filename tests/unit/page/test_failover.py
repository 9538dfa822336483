"""The stages of a failover."""

from tidelog.page.failover import Failover
from unit.page.seen import cluster, partition

ALL = (1, 2, 3)


def test_noticed_decided_applied_first_write() -> None:
    before = cluster(partition(1, ALL), partition(1, ALL), partition(2, ALL))
    failover = Failover(1, 1000, before)
    failover.cluster_seen(before, 1050)
    failover.grown(("orders", 0), 2, 1060)  # It was written by nobody new yet.
    failover.cluster_seen(cluster(partition(2, ALL), partition(1, ALL), partition(2, ALL)), 1100)
    failover.grown(("orders", 2), 2, 1110)  # This one had its leader before.
    failover.cluster_seen(cluster(partition(2, ALL), partition(3, ALL), partition(2, ALL)), 1150)
    failover.grown(("orders", 1), 3, 1180)
    failover.grown(("orders", 0), 2, 1300)
    assert failover.row() == {
        "broker": 1, "at": 1000, "led": 2, "moved": 2,
        "decided_ms": 100, "complete_ms": 150, "written_ms": 180,
    }  # fmt: skip


def test_a_primary_that_is_not_replaced() -> None:
    failover = Failover(1, 1000, cluster(partition(1, (1, 2))))
    failover.cluster_seen(cluster(partition(-1, (1, 2))), 1100)
    assert (failover.row()["moved"], failover.row()["decided_ms"]) == (0, -1)
