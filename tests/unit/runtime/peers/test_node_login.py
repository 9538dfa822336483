"""Nodes that recognise each other by the cluster's secret, and strangers who cannot act as one."""

import asyncio
import struct
from uuid import UUID

import pytest
from kio.schema.index import api_key_map

from interop.wire import request_bytes
from tidelog.protocol import envelope, follower_fetch, requests, sasl
from tidelog.protocol.messages import Fields
from tidelog.replication.messages import VoteRequested
from tidelog.replication.votes import Tail, VoteRequest
from tidelog.runtime.authentication import Pace
from tidelog.runtime.peers import names
from tidelog.runtime.peers.node_login import NodeLogin
from tidelog.security.cluster_secret import MECHANISM, ClusterSecret
from tidelog.security.principal import Principal
from tidelog.types import METADATA_TOPIC_ID
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

SECRET = ClusterSecret.parse("s" * 40)
OTHER = ClusterSecret.parse("t" * 40)
BOTH = {1: SECRET, 2: SECRET}
REFUSED = 31  # CLUSTER_AUTHORIZATION_FAILED
LAST_EPOCH = (1 << 31) - 1
TOPIC = UUID(int=0x7E5E)


def vote(sender: int, epoch: int = 7) -> VoteRequested:
    return VoteRequested(sender, (METADATA_TOPIC_ID, 0), VoteRequest(epoch, sender, Tail(0, 0), False))


class Stranger:
    """One connection to node 2."""

    def __init__(self, node: LoopbackNode) -> None:
        self._node = node

    async def __aenter__(self) -> "Stranger":
        address = self._node.cluster.addresses[self._node.node_id]
        self.reader, self.writer = await asyncio.open_connection(*address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        self.writer.write(struct.pack(">i", len(payload)) + payload)

    async def receive(self) -> memoryview:
        async with asyncio.timeout(20):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return memoryview(await self.reader.readexactly(size))

    async def until_closed(self) -> bytes:
        data = b""
        async with asyncio.timeout(20):
            try:
                while more := await self.reader.read(1 << 16):
                    data += more
            except ConnectionResetError:
                pass
        return data

    async def log_in(self, login: NodeLogin) -> None:
        self.writer.write(login.first())
        while not login.done:
            self.writer.write(login.take(await self.receive()))


# --- nodes --------------------------------------------------------------------------------------------------


@on_loop
async def test_nodes_with_the_same_secret() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: two.received == [vote(1)])
        (connection,) = two.server.connections
        assert connection.node == 1
        assert connection.principal == Principal("User", "broker-1")


@pytest.mark.parametrize("theirs", [OTHER, None])
@on_loop
async def test_a_node_sends_nothing_to_one_without_its_secret(
    theirs: ClusterSecret | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even if it would be taken: it may be a false one."""
    secrets = {1: SECRET} | ({2: theirs} if theirs else {})
    async with LoopbackCluster(2, secrets=secrets) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: "the login failed" in caplog.text)
        await until(lambda: not two.server.connections)
        assert two.received == []
        assert not one.peers.presence.is_there(2)


@on_loop
async def test_a_node_without_the_secret_is_refused_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async with LoopbackCluster(2, secrets={2: SECRET}) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: "cluster.secret.file" in caplog.text)
        assert two.received == []
        assert one.received == []
        assert "refused vote of 127.0.0.1" in caplog.text.lower()


@on_loop
async def test_while_the_secret_is_introduced_nodes_without_it_are_nodes() -> None:
    async with LoopbackCluster(2, secrets={2: SECRET}, requires_login=False) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: two.received == [vote(1)])
        two.peers.send(1, vote(2))
        await until(lambda: one.received == [vote(2)])
        two.peers.send(1, vote(2, 8))
        await until(lambda: one.received == [vote(2), vote(2, 8)])


@on_loop
async def test_even_then_another_secret_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with LoopbackCluster(2, secrets={1: OTHER, 2: SECRET}, requires_login=False) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: "the login failed" in caplog.text)
        assert two.received == []


@on_loop
async def test_requests_wait_for_the_login_in_their_order() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (one, two):
        votes = [vote(1, epoch) for epoch in range(1, 20)]
        for each in votes:
            one.peers.send(2, each)
            await asyncio.sleep(0)
        await until(lambda: two.received == votes)


@on_loop
async def test_the_connection_is_used_again_after_it_broke() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (one, two):
        one.peers.send(2, vote(1))
        await until(lambda: two.received)
        for connection in list(two.server.connections):
            connection.close("the test ends it")
        await until(lambda: not two.server.connections and one.lost == [2])
        one.peers.send(2, vote(1, 8))
        await until(lambda: two.received[-1] == vote(1, 8))


@on_loop
async def test_a_node_that_is_silent_during_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as not reachable, as one that does not accept connections."""
    monkeypatch.setattr("tidelog.runtime.peers.channel.CONNECT_TIMEOUT_S", 0.1)
    async with LoopbackCluster(2, secrets=BOTH) as (one, _):
        seen = []

        def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(writer)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        one.cluster.addresses[2] = server.sockets[0].getsockname()
        one.peers.send(2, vote(1))
        await until(lambda: one.peers.presence.failed_attempts(2) and 2 in one.lost)
        assert not one.peers.presence.is_there(2)
        one.peers.send(2, vote(1))
        await until(lambda: len(seen) > 1, "it tries again")
        for writer in seen:
            writer.close()
        server.close()


# --- strangers ----------------------------------------------------------------------------------------------

KEYS = {name: key for key, name in api_key_map.items()}
CLAIMS = [None, "stranger", names.client_id(1, 2)]


def peer_requests(client_id: str | None) -> dict[str, bytes]:
    """A request of each API that only nodes may send."""
    partition: Fields = {"partition_index": 0, "replica_id": 1, "replica_epoch": LAST_EPOCH}
    topic = {"topic_name": "__cluster_metadata", "partitions": [partition]}
    begun = {"partition_index": 0, "leader_id": 1, "leader_epoch": LAST_EPOCH}
    begun_topic = {"topic_name": "__cluster_metadata", "partitions": [begun]}
    bodies: dict[str, Fields] = {
        "vote": {"voter_id": 2, "topics": [topic]},
        "begin_quorum_epoch": {"voter_id": 2, "topics": [begun_topic]},
        "end_quorum_epoch": {"topics": []},
        "broker_registration": {"broker_id": 1, "incarnation_id": TOPIC},
        "broker_heartbeat": {"broker_id": 1},
        "alter_partition": {"broker_id": 1, "topics": []},
        "assign_replicas_to_dirs": {"broker_id": 1, "directories": []},
        "fetch_snapshot": {"replica_id": 1, "topics": []},
        "allocate_producer_ids": {"broker_id": 1, "broker_epoch": 1},
        "update_raft_voter": {"voter_id": 1, "listeners": []},
        "add_partitions_to_txn": {"transactions": []},
    }
    found = {
        name: bytes(request_bytes(name, requests.newest(KEYS[name]), 9, client_id, body))
        for name, body in bodies.items()
    }
    inner = memoryview(bytes(request_bytes("create_topics", 5, 1, "x", {"topics": []})))
    found["envelope"] = envelope.encode_request(9, client_id or "", inner, ("User", "admin"), "127.0.0.1:1")[
        4:
    ]
    asker = follower_fetch.asker(client_id or "", None)
    ask = follower_fetch.Ask(1, 2, 3, 0, 300, 1 << 20)
    item = ((METADATA_TOPIC_ID, 0), 1, 0, 0, 0, 0)
    found["fetch"] = bytes(follower_fetch.encode_ask(asker, 9, ask, [item], [])[4:])
    return found


def error_of(name: str, response: memoryview) -> int:
    if name == "fetch":
        return int(struct.unpack_from(">h", response, 9)[0])
    if name == "envelope":
        return int(envelope.decode_response(response).error)
    return int(requests.decode_response(KEYS[name], response).error_code)


@pytest.mark.parametrize("client_id", CLAIMS)
@pytest.mark.parametrize("name", sorted(peer_requests(None)))
@on_loop
async def test_a_stranger_cannot_use_what_is_for_nodes(name: str, client_id: str | None) -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as stranger:
        two.store.active = True
        stranger.send(peer_requests(client_id)[name])
        assert error_of(name, await stranger.receive()) == REFUSED
        assert two.received == []
        assert not two.peers.presence.is_there(1)
        assert not two.store.committed_offset


@pytest.mark.parametrize("name", ["vote", "fetch"])
@on_loop
async def test_the_same_requests_of_a_node_are_received(name: str) -> None:
    """The requests above are refused for who sends them, and not for what they are."""
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as node:
        await node.log_in(NodeLogin(SECRET, 1, 2))
        node.send(peer_requests(names.client_id(1, 2))[name])
        await until(lambda: two.received)


@on_loop
async def test_a_claim_keeps_nothing_of_what_nodes_are_allowed() -> None:
    """Such as never to be closed for being idle, or memory apart from clients."""
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as stranger:
        stranger.send(bytes(request_bytes("metadata", 9, 1, names.client_id(1, 2), {"topics": []})))
        await stranger.receive()
        (connection,) = two.server.connections
        assert connection.node is None
        assert connection.principal == Principal("User", "ANONYMOUS")


@on_loop
async def test_a_node_cannot_say_that_it_is_another_one() -> None:
    """All of them have the same secret; but whose the connection is, it says once."""

    class Liar(NodeLogin):
        def __init__(self) -> None:
            super().__init__(SECRET, 1, 2)
            self._client_id = names.client_id(3, 2)

    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as liar:
        with pytest.raises(Exception, match="invalid credentials"):
            await liar.log_in(Liar())
        await liar.until_closed()
        assert not two.server.connections


@on_loop
async def test_a_login_that_is_meant_for_another_node() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as lost:
        lost.writer.write((login := NodeLogin(SECRET, 1, 3)).first())
        for _ in range(2):
            lost.writer.write(login.take(await lost.receive()))
        assert await lost.until_closed() == b""
        assert two.received == []


@on_loop
async def test_a_recorded_login_is_of_no_use() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (_, two):
        sent = []
        async with Stranger(two) as node:
            login = NodeLogin(SECRET, 1, 2)
            sent.append(login.first())
            node.writer.write(sent[0])
            while not login.done:
                if request := login.take(await node.receive()):
                    sent.append(request)
                    node.writer.write(request)
        await until(lambda: not two.server.connections)
        async with Stranger(two) as thief:
            for each in sent:
                thief.writer.write(each)
            for _ in range(2):
                await thief.receive()
            answer = sasl.decode_authenticate_response(await thief.receive())
            assert answer.error == 58
            assert answer.reason == "Authentication failed: invalid credentials"
            assert await thief.until_closed() == b""


def handshake(mechanism: str) -> bytes:
    return sasl.encode_handshake(1, names.client_id(1, 2), mechanism)


def token(data: bytes) -> bytes:
    return sasl.encode_authenticate(2, names.client_id(1, 2), data)


HALF = handshake(MECHANISM.sasl_name) + NodeLogin(SECRET, 1, 2).first()[len(handshake(MECHANISM.sasl_name)) :]


@pytest.mark.parametrize(
    "frames",
    [
        handshake("PLAIN"),
        handshake("SCRAM-SHA-512"),
        handshake("x" * 30_000),
        handshake(MECHANISM.sasl_name) + handshake(MECHANISM.sasl_name),
        handshake(MECHANISM.sasl_name) + token(b""),
        handshake(MECHANISM.sasl_name) + token(b"n" * 20_000),
        handshake(MECHANISM.sasl_name) + token(b"\0broker-1\0" + b"s" * 40),
        HALF + token(b"c=biws"),
        token(b"n,,n=broker-1,r=x"),
        struct.pack(">ihhih", 12, 17, 1, 1, 0) + struct.pack(">h", 30_000),
        struct.pack(">ihhih", 14, 36, 1, 1, 0) + struct.pack(">i", -5),
        struct.pack(">ihhih", 10, 17, 1, 1, 0),
    ],
)
@on_loop
async def test_what_is_no_login_ends_its_connection_only(frames: bytes) -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (one, two), Stranger(two) as stranger:
        two.server.logins.pace = Pace(two.server.loop, 200, 1)
        stranger.writer.write(frames)
        stranger.send(peer_requests(names.client_id(1, 2))["vote"])
        data = await stranger.until_closed() if frames != token(b"n,,n=broker-1,r=x") else b""
        assert b"v=" not in data
        assert two.received == []
        one.peers.send(2, vote(1))
        await until(lambda: two.received == [vote(1)])


@on_loop
async def test_half_a_login_and_silence() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as stranger:
        two.server.logins.pace = Pace(two.server.loop, 50, 1)
        stranger.writer.write(NodeLogin(SECRET, 1, 2).first())
        await stranger.until_closed()
        assert not two.server.connections


@on_loop
async def test_a_wrong_login_waits_for_its_answer() -> None:
    async with LoopbackCluster(2, secrets=BOTH) as (_, two), Stranger(two) as stranger:
        two.server.logins.pace = Pace(two.server.loop, 10_000, 80)
        before = two.server.loop.time()
        stranger.writer.write(handshake(MECHANISM.sasl_name) + token(b""))
        await stranger.receive()
        await stranger.receive()
        assert two.server.loop.time() - before > 0.07  # The clock of the loop counts milliseconds.


def test_every_api_of_nodes_is_tried_above() -> None:
    from tidelog.protocol import messages
    from tidelog.runtime.peers.trust import _FROM_NODES

    tried = {name.replace("_", "") for name in peer_requests(None)}
    assert tried == {messages.name_of(key).replace("_", "").lower() for key in _FROM_NODES}
