"""Clients that say that they are nodes: what they send is limited, and nothing is remembered of them."""

import asyncio
import struct
from uuid import UUID

import pytest

from interop.wire import request_bytes
from tidelog.config import BrokerConfig
from tidelog.protocol import follower_fetch
from tidelog.protocol.messages import Fields
from tidelog.replication.messages import FetchAsk, VoteRequested
from tidelog.runtime.peers import names
from tidelog.runtime.receiver import PLAIN_BYTES_MAX
from tidelog.types import METADATA_TOPIC_ID
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

TOPIC = UUID(int=0x7E5E)


class Stranger:
    """One connection to a node."""

    def __init__(self, node: LoopbackNode) -> None:
        self._node = node

    async def __aenter__(self) -> "Stranger":
        self._reader, self._writer = await asyncio.open_connection(
            *self._node.cluster.addresses[self._node.node_id]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, payload: bytes | bytearray) -> None:
        self._writer.write(struct.pack(">i", len(payload)) + payload)

    def vote(self, client_id: str, *candidates: int) -> None:
        self.send(request_bytes("vote", 2, 1, client_id, votes_of(*candidates)))

    async def until_closed(self) -> None:
        async with asyncio.timeout(20):
            try:
                while await self._reader.read(1 << 16):
                    pass
            except ConnectionResetError:
                pass


def votes_of(*candidates: int) -> Fields:
    parts = [{"partition_index": number, "replica_id": each} for number, each in enumerate(candidates)]
    return {"voter_id": 2, "topics": [{"topic_name": str(TOPIC), "partitions": parts}]}


def fetch_of(sender: int, others: int = 0, forgotten: int = 0) -> bytearray:
    asker = follower_fetch.asker(names.client_id(1, 2), None)
    directories = [((TOPIC, number), METADATA_TOPIC_ID) for number in range(others)]
    ask = follower_fetch.Ask(sender, 2, 3, 0, 300, 1 << 20, others=directories)
    frame = follower_fetch.encode_ask(asker, 1, ask, [], [(TOPIC, number) for number in range(forgotten)])
    return frame[4:]


@pytest.mark.parametrize(
    ("client_id", "candidates"),
    [
        ("stranger", [1]),
        (names.client_id(1, 2), [3]),
        (names.client_id(1, 2), [1, 3]),
        (names.client_id(1, 2), [1] * 501),
    ],
)
@on_loop
async def test_a_request_that_no_node_sends(client_id: str, candidates: list[int]) -> None:
    """A node speaks for itself, and does not ask so much at once."""
    async with LoopbackCluster(2) as (_, two), Stranger(two) as stranger:
        stranger.vote(client_id, *candidates)
        await stranger.until_closed()
        assert two.received == []


@on_loop
async def test_a_connection_is_of_one_node(caplog: pytest.LogCaptureFixture) -> None:
    """When it closes, only that one is forgotten."""
    async with LoopbackCluster(2) as (_, two), Stranger(two) as stranger:
        stranger.vote(names.client_id(7, 2), 7)
        await until(lambda: two.received)
        stranger.vote(names.client_id(8, 2), 8)
        await stranger.until_closed()
        assert [message.sender for message in two.received] == [7]
        await until(lambda: two.lost == [7])


@pytest.mark.parametrize(("sender", "others", "forgotten"), [(3, 0, 0), (1, 101, 0), (1, 0, 100_001)])
@on_loop
async def test_a_fetch_that_no_follower_sends(sender: int, others: int, forgotten: int) -> None:
    async with LoopbackCluster(2) as (_, two), Stranger(two) as stranger:
        stranger.send(fetch_of(sender, others, forgotten))
        await stranger.until_closed()
        assert two.received == []


@on_loop
async def test_what_nodes_do_send_is_received() -> None:
    async with LoopbackCluster(2) as (_, two), Stranger(two) as stranger:
        stranger.vote(names.client_id(1, 2), *[1] * 500)
        stranger.send(fetch_of(1, others=1, forgotten=10))
        await until(lambda: len(two.received) == 501)
        assert isinstance(two.received[0], VoteRequested)
        assert isinstance(two.received[-1], FetchAsk)


async def come_and_go(node: LoopbackNode, invented: int) -> None:
    async with Stranger(node) as stranger:
        stranger.vote(names.client_id(invented, node.node_id), invented)
        await until(lambda: any(message.sender == invented for message in node.received))
    await until(lambda: invented in node.lost)


@on_loop
async def test_nothing_is_kept_of_a_node_without_an_address() -> None:
    """Clients can invent any number of them."""
    async with LoopbackCluster(2) as (_, two):
        for invented in range(100, 110):
            await come_and_go(two, invented)
        presence = two.peers.presence
        assert not {**presence._open, **presence._told_ms, **presence._logged, **presence._failed_attempts}


@on_loop
async def test_the_memory_for_requests_of_nodes_is_limited() -> None:
    """They do not wait for clients, but for each other."""
    async with LoopbackCluster(2) as (_, two), Stranger(two) as first, Stranger(two) as second:
        two.broker.config = BrokerConfig.parse(
            {"node.id": 2, "queued.max.request.bytes": 100_000, "socket.request.max.bytes": 100_000}
        )
        for stranger in (first, second):
            stranger.vote(names.client_id(7, 2), 7)
        await until(lambda: len(two.received) == 2)
        for stranger in (first, second):
            stranger._writer.write(struct.pack(">ihhi", PLAIN_BYTES_MAX, 52, 2, 1) + b"\0" * 500_000)
        await until(lambda: any(connection.memory.is_short for connection in two.server.connections))


@on_loop
async def test_a_node_sends_no_records() -> None:
    async with LoopbackCluster(2) as (_, two), Stranger(two) as stranger:
        stranger.vote(names.client_id(7, 2), 7)
        await until(lambda: two.received)
        stranger._writer.write(struct.pack(">ihhi", PLAIN_BYTES_MAX + 1, 0, 9, 1))
        await stranger.until_closed()
