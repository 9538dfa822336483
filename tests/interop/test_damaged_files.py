"""Files beside the records that somebody damages while a broker is down: what it says, and how it goes on."""

import json
from pathlib import Path

import pytest

from tidelog.log.checkpoints import RECOVERY_POINTS_FILE
from tidelog.testing import Broker, BrokerError, Cluster, running_cluster

from .calls import eventually
from .cluster_load import create_topic
from .test_quorum_topics import Ledger

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "orders"


def follower_of(cluster: Cluster) -> Broker:
    leader = cluster.leader_of(TOPIC).node_id
    return next(broker for broker in cluster if broker.node_id != leader)


def flip_last_digit(path: Path, end: bytes = b"]\n") -> None:
    text = bytearray(path.read_bytes())
    assert text.endswith(end)
    text[-1 - len(end)] ^= 1
    path.write_bytes(text)


@pytest.mark.timeout(240)
def test_a_broker_with_damaged_votes_says_what_to_do(tmp_path: Path) -> None:
    """A kill loses nothing that was written, so the last line counts like all others."""
    with running_cluster(tmp_path, 3) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1, replication_mode="quorum")
        cluster.await_in_sync(TOPIC)
        ledger = Ledger(cluster, (TOPIC,), 1)
        assert ledger.write(30) == set()
        follower = follower_of(cluster)
        follower.kill()
        ballots = follower.data_directory / "ballots"
        flip_last_digit(ballots)
        with pytest.raises(BrokerError, match="Move the file away and start the broker again"):
            follower.start()
        ballots.rename(ballots.with_suffix(".damaged"))
        follower.start()
        eventually(lambda: "its votes are missing" in follower.log_text(), "the loss is found")
        cluster.await_in_sync(TOPIC)
        assert ledger.write(30) == set()
        ledger.check()


@pytest.mark.timeout(240)
def test_a_damaged_list_of_voters_is_written_anew(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1, replication_mode="quorum")
        cluster.await_in_sync(TOPIC)
        ledger = Ledger(cluster, (TOPIC,), 1)
        assert ledger.write(30) == set()
        follower = follower_of(cluster)
        follower.kill()
        voters = follower.data_directory / f"{TOPIC}-0" / "voters"
        voters.write_bytes(b"garbage")
        follower.start()

        def is_readmitted() -> bool:
            found = [json.loads(text) for text in [voters.read_bytes()] if text != b"garbage"]
            return any(voter["heals"] >= 0 for each in found for voter in each["sets"][-1]["voters"])

        eventually(is_readmitted, "the replica votes again")
        assert "does not vote until it is readmitted" in follower.log_text()
        cluster.await_in_sync(TOPIC)
        cluster.leader_of(TOPIC).kill()
        assert ledger.write(30) == set()
        ledger.check()


@pytest.mark.timeout(240)
def test_a_controller_whose_own_vote_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 1)
        cluster.await_in_sync(TOPIC)
        follower = follower_of(cluster)
        follower.kill()
        vote = follower.data_directory / "__cluster_metadata-0" / "quorum-state"
        flip_last_digit(vote, b"}")
        with pytest.raises(BrokerError, match="Move the file away and start the node again"):
            follower.start()
        vote.rename(vote.with_suffix(".damaged"))
        follower.start()
        cluster.await_in_sync(TOPIC)
        eventually(lambda: "the voters are [1, 2, 3] from now on" in follower.log_text(), "it is readmitted")


def test_a_killed_controller_tells_damage_from_a_torn_write(tmp_path: Path) -> None:
    """It is no broker, and never registers; its machine stayed on all the same."""
    controller = Broker(tmp_path, {"process.roles": "controller"})
    controller.settings["controller.quorum.voters"] = f"1@{controller.bootstrap}"
    data = controller.data_directory
    log = data / "__cluster_metadata-0" / f"{0:020}.log"
    try:
        controller.start()
        eventually(lambda: log.exists() and log.stat().st_size > 0, "the cluster is founded")
        controller.kill()
        (data / RECOVERY_POINTS_FILE).unlink(missing_ok=True)  # As before the first checkpoint.
        content = bytearray(log.read_bytes())
        content[-1] ^= 1
        log.write_bytes(content)
        controller.start()
        assert "the metadata log lost records that this node had acknowledged" in controller.log_text()
    finally:
        controller.kill()
