"""Replicas of a quorum topic that lose their data, on real brokers, and the operator's way out."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidelog.testing import Cluster, running_cluster

from .calls import eventually
from .cluster_load import create_topic
from .test_quorum_topics import Ledger

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "orders"
NOBODY_S = 3.0  # So long nobody may be elected; elections take a tenth of a second.


def recover(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*(sys.executable, "-m", "tidelog", "topic", "recover", TOPIC, "--partition", "0", "--json")]
    place = ["--bootstrap", cluster.bootstrap]
    return subprocess.run(
        [*command, *place, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def told(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    done = recover(cluster, "--unsafe", *arguments)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def described(cluster: Cluster) -> dict[str, Any]:
    command = [sys.executable, "-m", "tidelog", "topic", "describe", TOPIC, "--json"]
    place = ["--bootstrap", cluster.bootstrap]
    done = subprocess.run([*command, *place], capture_output=True, text=True, timeout=60, check=True)
    row: dict[str, Any] = json.loads(done.stdout)["partitions"][0]
    return row


def recovery_waits_for_a_change_of_the_mode(cluster: Cluster) -> None:
    """While the mode changes, the longest log cannot be put first, and an election takes the first."""
    late = topic(cluster, "alter", "--mode", "isr", "--yes", "--timeout", "1s")
    assert "did not change to mode isr in time" in late.stderr
    for refused in (
        recover(cluster, "--unsafe", "--yes"),
        topic(cluster, "elect", "--unclean", "--yes"),
    ):
        assert refused.returncode == 1
        assert f"{TOPIC}-0 is still in mode quorum" in refused.stderr
        assert f"tidelog topic alter {TOPIC} --mode quorum" in refused.stderr
    back = topic(cluster, "alter", "--mode", "quorum", "--yes")
    assert back.returncode == 0, back.stderr


def topic(cluster: Cluster, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "tidelog", "topic", command, TOPIC, "--bootstrap", cluster.bootstrap]
    return subprocess.run([*line, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.timeout(240)
def test_two_removed_directories_do_not_outvote_the_intact_third(tmp_path: Path) -> None:
    """``rm -r`` of the topic's directory on two of three brokers, and two starts while the third is away."""
    with running_cluster(tmp_path, 3) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1, replication_mode="quorum")
        cluster.await_in_sync(TOPIC)
        ledger = Ledger(cluster, (TOPIC,), 1)
        for _ in range(3):
            assert ledger.write(30) == set()
        shown = recover(cluster, "--unsafe")
        assert "nothing to recover" in shown.stderr
        refused = recover(cluster, "--unsafe", "--yes")
        assert refused.returncode != 0
        assert "ELECTION_NOT_NEEDED" in refused.stderr
        for broker in cluster:
            broker.kill()
        for number in (1, 2):
            shutil.rmtree(cluster[number].data_directory / f"{TOPIC}-0")
        for _ in range(2):
            cluster[1].launch()  # Alone it does not answer: its controllers need a majority.
            cluster[2].start()
            assert ledger.write(NOBODY_S) == {TOPIC}
            for number in (1, 2):
                cluster[number].kill()
        cluster[1].launch()
        cluster[2].launch()
        cluster[3].start()
        eventually(lambda: len(told(cluster)["unheard"]) == 0, "all brokers are let in")
        assert ledger.write(2) == {TOPIC}
        shown_row = described(cluster)
        assert shown_row["leader"] is None  # Though somebody serves readers.
        assert shown_row["readers_at"] == 3
        plan = told(cluster)
        assert (plan["executed"], plan["leader"]) == (False, 3)
        recovery_waits_for_a_change_of_the_mode(cluster)
        assert told(cluster, "--yes")["executed"]
        cluster.await_in_sync(TOPIC)
        assert ledger.write(30) == set()
        ledger.check()


@pytest.mark.timeout(240)
def test_a_broker_whose_votes_are_gone_does_not_vote_before_it_was_readmitted(tmp_path: Path) -> None:
    """Twice, and with nothing written in between: what a voter held the first time says nothing of now."""
    with running_cluster(tmp_path, 3) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1, replication_mode="quorum")
        cluster.await_in_sync(TOPIC)
        ledger = Ledger(cluster, (TOPIC,), 1)
        leader = cluster.leader_of(TOPIC).node_id
        follower = next(broker for broker in cluster if broker.node_id != leader)
        for number in (1, 2):
            assert ledger.write(30) == set()
            follower.kill()
            (follower.data_directory / "ballots").unlink()
            follower.start()
            cluster.await_in_sync(TOPIC)
            assert follower.log_text().count("its votes are missing") == number
        cluster[leader].kill()
        assert ledger.write(30) == set()
        cluster[leader].start()
        cluster.await_in_sync(TOPIC)
        ledger.check()
