"""Strangers at a cluster with its usual settings: they cannot act as one of its nodes."""

import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tidelog.client.cluster_view import active_controller
from tidelog.lab.local.secret import NAME
from tidelog.protocol import envelope, follower_fetch, requests, sasl
from tidelog.runtime.peers import names
from tidelog.testing import Cluster, running_cluster
from tidelog.types import METADATA_TOPIC_ID

from . import calls
from .node_wires import node_wire
from .wire import API_KEYS, ConnectionEnded, Wire, request_bytes

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

LAST_EPOCH = (1 << 31) - 1
REFUSED = 31  # CLUSTER_AUTHORIZATION_FAILED
METADATA = "__cluster_metadata"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("no-node")) as cluster:
        yield cluster


@pytest.fixture(params=["stranger", names.client_id(2, 1), names.client_id(9, 1)])
def stranger(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Wire]:
    """Connected to broker 1. Two of them say that they are nodes, one of those that it is broker 2."""
    with Wire(cluster[1].bootstrap, client_id=request.param) as wire:
        yield wire


def newest(api: str) -> int:
    return requests.newest(API_KEYS[api])


def candidates(replica: int) -> list[dict[str, object]]:
    partition = {"partition_index": 0, "replica_id": replica, "replica_epoch": LAST_EPOCH,
                 "last_offset": 1 << 40, "last_offset_epoch": LAST_EPOCH - 1}  # fmt: skip
    return [{"topic_name": METADATA, "partitions": [partition]}]


def test_a_vote_of_the_last_epoch_does_not_end_the_quorum(cluster: Cluster, stranger: Wire) -> None:
    """No epoch could follow it, so that no controller would ever be elected again."""
    before = active_controller(cluster[1].host, cluster[1].port)
    for replica in (1, 2, 9):
        answer = stranger.call("vote", newest("vote"), voter_id=1, topics=candidates(replica))
        assert answer.error_code == REFUSED
    began = {"partition_index": 0, "leader_id": 2, "leader_epoch": LAST_EPOCH}
    topics = [{"topic_name": METADATA, "partitions": [began]}]
    answer = stranger.call("begin_quorum_epoch", newest("begin_quorum_epoch"), voter_id=1, topics=topics)
    assert answer.error_code == REFUSED
    cluster.create_topic(f"after-{uuid4()}", partitions=1, replicas=3)
    after = active_controller(cluster[1].host, cluster[1].port)
    assert after == before


def test_no_partition_changes_its_in_sync_set(cluster: Cluster, stranger: Wire) -> None:
    cluster.create_topic(name := f"kept-{uuid4()}", partitions=1, replicas=3)
    with Wire(cluster[1].bootstrap) as wire:
        topic_id = calls.topic_id(wire, name)
    partition = {"partition_index": 0, "leader_epoch": 0, "new_isr_with_epochs": [], "partition_epoch": 0}
    answer = stranger.call(
        "alter_partition", newest("alter_partition"), broker_id=2, broker_epoch=3,
        topics=[{"topic_id": topic_id, "partitions": [partition]}],
    )  # fmt: skip
    assert answer.error_code == REFUSED


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("broker_registration", {"broker_id": 2, "incarnation_id": UUID(int=5)}),
        ("broker_registration", {"broker_id": 99, "incarnation_id": UUID(int=5)}),
        ("broker_heartbeat", {"broker_id": 2, "broker_epoch": 2, "want_shut_down": True}),
        ("assign_replicas_to_dirs", {"broker_id": 2, "broker_epoch": 2}),
        ("fetch_snapshot", {"replica_id": 2, "max_bytes": 1 << 20}),
        ("end_quorum_epoch", {}),
        ("allocate_producer_ids", {"broker_id": 2, "broker_epoch": 2}),
        ("update_raft_voter", {"voter_id": 2, "voter_directory_id": UUID(int=5)}),
        ("add_partitions_to_txn", {}),
    ],
)
def test_what_only_nodes_ask(stranger: Wire, api: str, fields: dict[str, object]) -> None:
    assert stranger.call(api, newest(api), **fields).error_code == REFUSED


def test_requests_in_the_name_of_others(stranger: Wire) -> None:
    inner = memoryview(request_bytes("delete_topics", 5, 1, "x", {"topics": []}))
    frame = envelope.encode_request(1, stranger.client_id or "", inner, ("User", "admin"), "127.0.0.1:1")
    stranger.send_bytes(frame)
    assert envelope.decode_response(memoryview(stranger.receive_frame())).error == REFUSED


def metadata_fetch(sender: int, client_id: str) -> bytes:
    asker = follower_fetch.asker(client_id, None)
    item = ((METADATA_TOPIC_ID, 0), 1, 0, 0, 0, 0)
    ask = follower_fetch.Ask(sender, 2, 3, 0, 300, 1 << 20)
    return bytes(follower_fetch.encode_ask(asker, 1, ask, [item], [])[4:])


def test_the_metadata_log_is_not_shown(cluster: Cluster, stranger: Wire) -> None:
    """It has what the passwords of all users can be guessed from."""
    stranger.send_frame(metadata_fetch(2, stranger.client_id or ""))
    (error,) = struct.unpack_from(">h", stranger.receive_frame(), 9)
    assert error == REFUSED
    # Nor to consumers.
    topic = {"topic_id": METADATA_TOPIC_ID, "topic": METADATA, "partitions": [{"partition": 0}]}
    for version in (12, 17):
        answer = stranger.call("fetch", version, topics=[topic], max_bytes=1 << 20, session_epoch=-1)
        assert not any(part.records for each in answer.responses for part in each.partitions)


def test_records_are_not_copied_as_by_a_follower(cluster: Cluster, stranger: Wire) -> None:
    """A follower's fetch says what it has. The leader would take it for committed."""
    cluster.create_topic(name := f"held-{uuid4()}", partitions=1, replicas=3)
    with Wire(cluster[1].bootstrap) as wire:
        topic_id = calls.topic_id(wire, name)
    asker = follower_fetch.asker(stranger.client_id or "", None)
    ask = follower_fetch.Ask(2, 2, 3, 0, 300, 1 << 20)
    frame = follower_fetch.encode_ask(asker, 1, ask, [((topic_id, 0), 0, 1 << 40, 0, 0, 1 << 40)], [])
    stranger.send_frame(bytes(frame[4:]))
    (error,) = struct.unpack_from(">h", stranger.receive_frame(), 9)
    assert error == REFUSED


def test_a_user_cannot_log_in_as_a_node(cluster: Cluster) -> None:
    """Whatever is guessed, the answer says nothing, and the connection is closed."""
    client_id = names.client_id(2, 1)
    with Wire(cluster[1].bootstrap, client_id=client_id) as wire:
        wire.send_bytes(sasl.encode_handshake(1, client_id, "SCRAM-SHA-256"))
        wire.send_bytes(sasl.encode_authenticate(2, client_id, b"n,,n=broker-2,r=x"))
        wire.send_bytes(sasl.encode_authenticate(3, client_id, b"c=biws,r=x,p=AAAA"))
        assert sasl.decode_handshake_response(memoryview(wire.receive_frame())) == 0
        assert sasl.decode_authenticate_response(memoryview(wire.receive_frame())).error == 0
        answer = sasl.decode_authenticate_response(memoryview(wire.receive_frame()))
        assert (answer.error, answer.token) == (58, b"")
        with pytest.raises(ConnectionEnded):
            wire.receive_frame()


def test_clients_have_nothing_to_log_in_to(cluster: Cluster) -> None:
    with Wire(cluster[1].bootstrap) as wire:
        assert wire.call("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 34
        assert wire.call("sasl_authenticate", 2, auth_bytes=b"x").error_code == 34
        assert wire.call("metadata", 12, topics=[]).brokers


def test_a_node_is_asked_for_as_before(cluster: Cluster) -> None:
    """What is refused above is refused for who asks, and not for what is asked."""
    secret = cluster.directory / NAME
    with node_wire(cluster[1].bootstrap, secret) as wire:
        answer = wire.call("allocate_producer_ids", 0, broker_id=2, broker_epoch=2)
        assert answer.error_code != REFUSED


def test_the_secret_is_only_for_the_account_of_the_brokers(cluster: Cluster) -> None:
    secret = cluster.directory / NAME
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    text = secret.read_text().strip()
    for broker in cluster:
        assert text not in broker.log_text()
    found = [
        path
        for path in Path(cluster.directory).rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]
    assert found == [secret]


def test_the_cluster_is_as_it_was(cluster: Cluster) -> None:
    """After all of the above."""
    cluster.await_ready()
    cluster.create_topic("at-the-end", partitions=3, replicas=3)
    for broker in cluster:
        broker.check_alive()
        assert "Traceback" not in broker.log_text()


@pytest.mark.slow
def test_a_secret_is_introduced_and_changed_broker_by_broker(tmp_path: Path) -> None:
    """While the cluster serves its clients all along."""
    name = "cluster.secret.file"
    with running_cluster(tmp_path, settings={name: ""}) as cluster:
        cluster.create_topic("orders", partitions=3, replicas=3)

        def roll(**settings: object) -> None:
            for broker in cluster:
                for key, value in settings.items():
                    broker.settings[key.replace("_", ".")] = str(value)
                broker.restart()
                cluster.await_ready()

        for broker in cluster:
            assert "any client that reaches this broker can act as a node" in broker.log_text()
        path = tmp_path / "the.secret"
        path.touch(0o600)
        old, new = "a" * 40, "b" * 40
        path.write_text(f"{old}\n{new}")
        roll(cluster_secret_file=path, cluster_secret_required="false")
        path.write_text(f"{new}\n{old}")
        roll(cluster_secret_required="true")
        with Wire(cluster[1].bootstrap, client_id=names.client_id(2, 1)) as stranger:
            assert stranger.call("vote", newest("vote"), voter_id=1).error_code == REFUSED
        cluster.create_topic("after", partitions=3, replicas=3)
