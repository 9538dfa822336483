"""DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, as handlers see and answer them."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.future import Future
from tidelog.broker.handlers import add_raft_voter, describe_quorum, remove_raft_voter, update_raft_voter
from tidelog.broker.requests.request import RequestContext
from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields
from unit.broker.controllers import Controllers, quiet

__all__ = ["quiet"]

DESCRIBE, ADD, REMOVE, UPDATE = 55, 80, 81, 82
HANDLERS: dict[int, Any] = {
    DESCRIBE: describe_quorum.handle,
    ADD: add_raft_voter.handle,
    REMOVE: remove_raft_voter.handle,
    UPDATE: update_raft_voter.handle,
}


class AtLeader:
    """As much of a broker as these handlers look at."""

    def __init__(self, cluster: Controllers) -> None:
        machine = cluster.active_machine()
        self.cluster = cluster
        self.config = BrokerConfig.parse({})
        self.store: Any = machine.quorum
        self.services: Any = machine.services

    def ask(self, api_key: int, body: Fields) -> Any:
        context = RequestContext(api_key, requests.newest(api_key), 0, None, "a test")
        outcome = HANDLERS[api_key](self, requests.request_of(api_key, body), context)
        if isinstance(outcome, Future):
            told: list[Fields] = []
            outcome.then(told.append)
            self.cluster.until(lambda: told)
            outcome = told[0]
        return requests.response_of(api_key, outcome)

    def describe(self, topic: str = "__cluster_metadata") -> Any:
        body = {"topics": [{"topic_name": topic, "partitions": [{"partition_index": 0}]}]}
        return self.ask(DESCRIBE, body)


@pytest.fixture
def leader() -> AtLeader:
    cluster = Controllers(3, 1).begin()
    cluster.run(500)
    return AtLeader(cluster)


def directory_of(leader: AtLeader, node_id: int) -> UUID | None:
    return leader.cluster.quorum(node_id).election.directory


def test_who_votes_and_who_reads_along(leader: AtLeader) -> None:
    partition = leader.describe().topics[0].partitions[0]
    end_offset = leader.store.driver.log.end_offset
    assert partition.error_code == ErrorCode.NONE
    assert partition.leader_id == leader.store.election.me
    assert partition.high_watermark == end_offset
    assert [each.replica_id for each in partition.current_voters] == [1, 2, 3]
    assert [each.replica_id for each in partition.observers] == [4]
    for each in (*partition.current_voters, *partition.observers):
        assert each.log_end_offset == end_offset
        assert each.replica_directory_id == directory_of(leader, each.replica_id)
        assert abs(each.last_caught_up_timestamp - leader.services.now_ms()) < 1000


def test_only_the_metadata_log_has_a_quorum(leader: AtLeader) -> None:
    partition = leader.describe("orders").topics[0].partitions[0]
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_does_not_lead_says_who_does(leader: AtLeader) -> None:
    follower = leader.cluster.followers()[0]
    active, leader.store = leader.store.election.me, follower.quorum
    partition = leader.describe().topics[0].partitions[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.leader_id == active


def test_add_and_remove(leader: AtLeader) -> None:
    listeners = [{"name": "CONTROLLER", "host": "h", "port": 9093}]
    body = {
        "timeout": 3000,
        "voter_id": 4,
        "voter_directory_id": directory_of(leader, 4),
        "listeners": listeners,
    }
    assert leader.ask(ADD, body).error_code == ErrorCode.NONE
    assert leader.store.voters.latest.get(4).host == "h"
    assert [each.node_id for each in leader.describe().nodes] == [4]  # Only its address is known here.
    again = leader.ask(ADD, body)
    assert again.error_code == ErrorCode.DUPLICATE_VOTER
    assert "already" in again.error_message
    assert leader.ask(REMOVE, {"voter_id": 4}).error_code == ErrorCode.NONE
    assert 4 not in leader.store.voters.latest


def test_another_address(leader: AtLeader) -> None:
    voter = leader.cluster.followers()[0].node_id
    body = {
        "voter_id": voter,
        "voter_directory_id": directory_of(leader, voter),
        "listeners": [{"name": "CONTROLLER", "host": "elsewhere", "port": 1}],
    }
    assert leader.ask(UPDATE, body).error_code == ErrorCode.NONE
    assert leader.store.voters.latest.get(voter).host == "elsewhere"
    stranger = leader.ask(UPDATE, {**body, "voter_directory_id": UUID(int=9)})
    assert stranger.error_code == ErrorCode.VOTER_NOT_FOUND


def test_another_cluster_is_refused(leader: AtLeader) -> None:
    answer = leader.ask(REMOVE, {"cluster_id": "another", "voter_id": 1})
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_where_no_quorum_keeps_the_metadata(leader: AtLeader) -> None:
    leader.store = object()
    assert leader.describe().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert leader.ask(REMOVE, {"voter_id": 1}).error_code == ErrorCode.UNSUPPORTED_VERSION
