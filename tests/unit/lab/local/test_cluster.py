"""Clusters of ``tidelog.testing`` with stand-in brokers, so that only the handling is tested."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.client.cluster_view import PartitionView
from tidelog.testing import Broker, BrokerError, Cluster, running_cluster

pytestmark = pytest.mark.slow

STANDIN = Path(__file__).with_name("standin.py")


class StandIn(Broker):
    exit_code = 0

    def command(self) -> list[str]:
        voters = str(self.settings["controller.quorum.voters"])
        return [sys.executable, str(STANDIN), str(self.port), str(self.exit_code), voters]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, settings={"num.partitions": 2}, kind=StandIn)
    cluster.start()
    yield cluster
    cluster.kill()


def test_brokers_have_ports_directories_and_the_same_voters(cluster: Cluster) -> None:
    assert [broker.node_id for broker in cluster] == [1, 2, 3]
    assert len({broker.port for broker in cluster}) == 3
    assert cluster.bootstrap == ",".join(f"127.0.0.1:{cluster[n].port}" for n in (1, 2, 3))
    for number in (1, 2, 3):
        settings = cluster[number].settings
        assert settings["num.partitions"] == 2
        assert settings["controller.quorum.voters"] == ",".join(
            f"{n}@127.0.0.1:{cluster[n].port}" for n in (1, 2, 3)
        )
        assert cluster[number].directory.name == f"broker-{number}"


def test_leader_followers_and_controller_are_brokers_that_run(cluster: Cluster) -> None:
    assert cluster.controller() is cluster[1]
    assert cluster.leader_of("t", 1) is cluster[2]
    assert cluster.followers_of("t", 1) == [cluster[1], cluster[3]]
    cluster[1].kill()
    assert cluster.controller() is cluster[2]
    assert cluster.partition("t") == PartitionView(2, 0, (1, 2, 3), (2, 3))
    assert cluster.partition("t", 7).leader == -1


def test_in_sync_again_when_all_are_back(cluster: Cluster) -> None:
    cluster[3].kill()
    with pytest.raises(BrokerError, match="not all replicas of t came back"):
        cluster.await_in_sync("t", timeout_s=0.2)
    cluster[3].start()
    cluster.await_in_sync("t")


def test_ready_counts_those_that_run(cluster: Cluster) -> None:
    cluster[2].kill()
    cluster.await_ready()
    assert cluster.running == [cluster[1], cluster[3]]
    cluster.start()
    assert len(cluster.running) == 3


def test_a_broker_more_is_no_voter(cluster: Cluster) -> None:
    more = cluster.add_broker()
    assert more.node_id == 4
    assert more.settings["controller.quorum.voters"] == cluster[1].settings["controller.quorum.voters"]
    assert cluster[4] is more


def test_one_that_dies_while_the_others_start_is_named_and_nobody_is_left(tmp_path: Path) -> None:
    class Doomed(StandIn):
        def command(self) -> list[str]:
            if self.node_id == 2:
                return [sys.executable, "-c", "raise SystemExit('the disk is gone')"]
            return super().command()

    cluster = Cluster(tmp_path, kind=Doomed)
    with pytest.raises(BrokerError, match="the disk is gone"):
        cluster.start()
    assert cluster.running == []


def test_an_unclean_end_of_one_is_reported_after_all_have_stopped(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerError, match="stopped with exit code 3"),
        running_cluster(tmp_path, kind=StandIn) as cluster,
    ):
        cluster.kill()
        cluster[2].exit_code = 3  # type: ignore[attr-defined]
        cluster.start()
    assert cluster.running == []


def test_the_blocks_own_error_comes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"), running_cluster(tmp_path, kind=StandIn) as cluster:
        cluster[1].exit_code = 3  # type: ignore[attr-defined]
        raise KeyError("mine")
    assert cluster.running == []
