"""What operators do to a running cluster with the commands, under load: nobody who writes or reads minds."""

import json
import time
from collections import Counter
from typing import Any

import pytest

from tidelog.cli import main
from tidelog.testing import Cluster

from .cluster_load import Load, create_topic
from .test_cluster_members import read, write

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"
PARTITIONS = 6


class Operator:
    """Runs commands against a cluster and reads what they say."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capsys = capsys

    def run(self, *words: str, code: int = 0) -> str:
        """What was printed; when the command is to fail, what was complained."""
        self._capsys.readouterr()
        bootstrap = ",".join(broker.bootstrap for broker in self._cluster.running)
        ended = main([*words, "--bootstrap", bootstrap])
        said = self._capsys.readouterr()
        assert ended == code, said.err
        return said.err if code else said.out

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("cluster", "status", "--json"))
        return found

    def away(self) -> list[int]:
        return [row["broker"] for row in self.status()["brokers"] if row["state"] in ("fenced", "down")]

    def partitions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("topic", "describe", TOPIC, "--json"))["partitions"]
        return found

    def leads(self) -> Counter[int]:
        return Counter(row["leader"] for row in self.partitions())

    def holds(self) -> Counter[int]:
        return Counter(replica for row in self.partitions() for replica in row["replicas"])


@pytest.fixture
def cluster(tidelog_cluster: Cluster) -> Cluster:
    return tidelog_cluster


@pytest.fixture
def operator(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(cluster, capsys)


def test_a_new_broker_gets_its_share_under_load(cluster: Cluster, operator: Operator) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS)
    load.start()
    cluster.add_broker().start()
    cluster.await_ready()
    assert operator.leads()[4] == 0
    plan = json.loads(operator.run("topic", "reassign", TOPIC, "--json"))
    assert not plan["executed"]
    assert sum(row["copies"] for row in plan["partitions"]) == 4
    assert operator.leads()[4] == 0
    operator.run("topic", "reassign", TOPIC, "--execute", "--watch")
    load.await_writes(time.monotonic())
    assert sorted(operator.holds().values()) == [4, 4, 5, 5]
    assert sorted(operator.leads().values()) == [1, 1, 2, 2]
    assert "already in place" in operator.run("topic", "reassign", TOPIC)
    load.finish()
    load.check()


def test_a_drained_broker_and_a_planned_stop_go_unnoticed(cluster: Cluster, operator: Operator) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS)
    load.start()
    assert operator.leads() == {1: 2, 2: 2, 3: 2}
    operator.run("broker", "drain", "2")
    assert operator.leads()[2] == 0
    states = {row["broker"]: row["state"] for row in operator.status()["brokers"]}
    assert states == {1: "up", 2: "drained", 3: "up"}
    assert "is drained" in operator.run("topic", "elect", TOPIC, code=1)
    operator.run("broker", "drain", "2", "--undo")
    assert operator.leads() == {1: 2, 2: 2, 3: 2}
    for broker in (1, 2, 3):
        assert cluster[broker].stop() == 0
        load.await_writes(time.monotonic())
        cluster[broker].start()
        cluster.await_in_sync(TOPIC)
        operator.run("topic", "elect", TOPIC)
    load.finish()
    load.check()


def test_a_broker_that_is_gone_for_good(cluster: Cluster, operator: Operator) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, 2)
    write(cluster, b"kept")
    cluster[3].kill()
    cluster.wait_for(lambda: operator.away() == [3], "nobody counts on broker 3")
    assert "has a replica" in operator.run("broker", "unregister", "3", code=1)
    assert "is running" in operator.run("broker", "unregister", "1", code=1)
    operator.run("topic", "reassign", "--all", "--execute", "--watch", "--throttle", "1000000")
    operator.run("broker", "unregister", "3")
    assert [row["broker"] for row in operator.status()["brokers"]] == [1, 2]
    assert operator.holds() == {1: PARTITIONS, 2: PARTITIONS}
    assert read(cluster) == [b"kept"]


def test_a_move_that_is_stopped(cluster: Cluster, operator: Operator) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1, 1)
    write(cluster, b"one")
    leader = cluster.leader_of(TOPIC).node_id
    away, other = (broker for broker in (1, 2, 3) if broker != leader)
    cluster[away].kill()
    cluster.wait_for(lambda: operator.away() == [away], "nobody counts on it")
    operator.run("topic", "reassign", TOPIC, "--to", f"{away},{other}", "--replicas", "2", "--execute")
    assert operator.status()["moving"] == 1
    assert "returned to the previous replicas" in operator.run("topic", "reassign", TOPIC, "--cancel")
    assert operator.status()["moving"] == 0
    assert cluster.partition(TOPIC).replicas == (leader,)
    assert "No reassignment is running" in operator.run("topic", "reassign", TOPIC, "--cancel")


def test_an_unclean_election_says_what_it_costs(cluster: Cluster, operator: Operator) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1, 2, min_insync_replicas=1)
    write(cluster, b"both have it")
    cluster.await_in_sync(TOPIC)
    leader, follower = cluster.leader_of(TOPIC), cluster.followers_of(TOPIC)[0]
    follower.kill()
    cluster.wait_for(lambda: len(cluster.partition(TOPIC).in_sync) == 1, "the leader is alone")
    write(cluster, b"one has it")
    leader.kill()
    follower.start()
    cluster.wait_for(lambda: operator.status()["offline"] == 1, "nobody leads")
    shown = json.loads(operator.run("topic", "elect", TOPIC, "--unclean", "--json"))
    assert [(row["complete"], row["there"]) for row in shown] == [([leader.node_id], [follower.node_id])]
    assert operator.status()["offline"] == 1
    operator.run("topic", "elect", TOPIC, "--unclean", "--execute")
    assert read(cluster) == [b"both have it"]
    leader.start()
    cluster.await_in_sync(TOPIC)
    assert read(cluster) == [b"both have it"]
    assert "an unclean election lost 1 records" in leader.log_text()
