"""What the controller commands ask of a cluster, as plain values ready for a table or for JSON."""

from typing import Any, NamedTuple
from uuid import UUID

from tidelog.cli.cluster_client import ClusterClient, check
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import Address, refused

DESCRIBE_QUORUM, ADD_VOTER, REMOVE_VOTER = 55, 80, 81
METADATA_LOG = "__cluster_metadata"
LISTENER_NAME = "CONTROLLER"
ADD_TIMEOUT_MS = 10_000
ALIVE_MS = 2000  # A node that was silent for longer does not count as alive.

ACTIVE, VOTER, OBSERVER = "active", "voter", "observer"


class Node(NamedTuple):
    """A node that keeps the metadata log."""

    node: int
    role: str
    directory: UUID | None  # None: not learnt yet
    address: Address | None
    end_offset: int | None  # None: not heard of by the active controller
    lag: int | None
    heard_ms: int | None  # How long ago the active controller heard of it.

    @property
    def alive(self) -> bool:
        return self.heard_ms is not None and self.heard_ms <= ALIVE_MS


class Quorum(NamedTuple):
    epoch: int
    high_watermark: int
    nodes: list[Node]

    def find(self, node: int) -> Node | None:
        return next((each for each in self.nodes if each.node == node), None)

    @property
    def voters(self) -> list[Node]:
        return [each for each in self.nodes if each.role != OBSERVER]


def look(client: ClusterClient) -> Quorum:
    body = {"topics": [{"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}]}
    response = client.ask(None, DESCRIBE_QUORUM, body)
    check(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    addresses = dict(client.brokers())
    for node in response.nodes:
        for listener in node.listeners:
            addresses[node.node_id] = Address(listener.host, int(listener.port))
    end = max((each.log_end_offset for each in partition.current_voters), default=0)
    # The active controller gives its own time for itself: whatever the clock here says.
    now_ms = max((each.last_caught_up_timestamp for each in partition.current_voters), default=0)

    def row(state: Any, role: str) -> Node:
        known = state.log_end_offset >= 0
        return Node(
            state.replica_id,
            ACTIVE if state.replica_id == partition.leader_id else role,
            state.replica_directory_id,
            addresses.get(state.replica_id),
            state.log_end_offset if known else None,
            max(0, end - state.log_end_offset) if known else None,
            _heard_ms(state, partition.leader_id, now_ms),
        )

    nodes = [row(each, VOTER) for each in partition.current_voters]
    nodes += [row(each, OBSERVER) for each in partition.observers]
    # The active controller may have heard of a node a moment before it ended.
    down = refused([each.address for each in nodes if each.address is not None])
    nodes = [each._replace(heard_ms=None) if each.address in down else each for each in nodes]
    return Quorum(partition.leader_epoch, partition.high_watermark, sorted(nodes))


def _heard_ms(state: Any, leader: int, now_ms: int) -> int | None:
    if state.replica_id == leader:
        return 0
    return max(0, now_ms - state.last_fetch_timestamp) if state.last_fetch_timestamp >= 0 else None


def add(client: ClusterClient, node: int, address: Address | None) -> None:
    """Make an observer a voter."""
    found = look(client).find(node)
    if found is None:
        raise CommandFailed(
            f"Node {node} does not read the metadata log. Is it running, and does its "
            "controller.quorum.voters name the controllers of this cluster?"
        )
    if found.role != OBSERVER:
        raise CommandFailed(f"Node {node} is already a voter.", "DUPLICATE_VOTER")
    there = address or found.address
    if there is None:
        raise CommandFailed(f"The address of node {node} is unknown; pass --address.")
    listener = {"name": LISTENER_NAME, "host": there.host, "port": there.port}
    body = {
        "timeout": ADD_TIMEOUT_MS,
        "voter_id": node,
        "voter_directory_id": found.directory,
        "listeners": [listener],
    }
    response = client.ask(None, ADD_VOTER, body)
    check(response.error_code, response.error_message)


def remove(client: ClusterClient, node: int) -> None:
    """Make a voter an observer."""
    found = look(client).find(node)
    if found is None or found.role == OBSERVER:
        raise CommandFailed(f"Node {node} is not a voter.", "VOTER_NOT_FOUND")
    response = client.ask(None, REMOVE_VOTER, {"voter_id": node, "voter_directory_id": found.directory})
    check(response.error_code, response.error_message)
