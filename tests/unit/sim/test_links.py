"""Requests between simulated brokers."""

from typing import Any

from tidelog.sim.cluster import SimCluster
from tidelog.sim.links import LinkGot


def test_an_answer_to_an_earlier_process_is_not_taken() -> None:
    """Processes number their questions anew: it would answer another one."""
    cluster = SimCluster(1, 3, 3)
    cluster.start()
    cluster.world.run_until(cluster.world.now_ms + 2000)
    links = cluster.machines[1].links
    assert links is not None
    heard: list[Any] = []
    links.request(2, 18, {"client_software_name": "x", "client_software_version": "1"}, heard.append)
    links.answered(LinkGot(2, links._number, "of somebody else", object()))
    assert heard == []
    cluster.world.run_until(cluster.world.now_ms + 1000)
    assert len(heard) == 1
    assert heard != ["of somebody else"]
