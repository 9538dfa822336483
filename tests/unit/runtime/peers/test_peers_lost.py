"""Connections between nodes that break, are refused, or carry nonsense."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable
from uuid import UUID

import pytest

from interop.wire import ConnectionEnded, Wire
from tidelog.broker.node.ports import Answered, Asked
from tidelog.controller.messages import HeartbeatAsk, HeartbeatGot
from tidelog.errors import ErrorCode
from tidelog.protocol import follower_fetch
from tidelog.replication.messages import FetchAsk, FetchGot, FetchItem
from tidelog.runtime.peers import channel, names, peers
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

TOPIC = UUID(int=0x7E5E)
HEARTBEAT = Asked(1, HeartbeatAsk(1, 77, 5))
BEAT = Answered(2, HeartbeatGot(1, 77, ErrorCode.NONE, False))


def fetch_ask(generation: int) -> FetchAsk:
    return FetchAsk(1, 77, generation, 0, [FetchItem((TOPIC, 0), 5, 100, 4, 7, 90)], [], 300, 1 << 20)


def beating(node: LoopbackNode) -> None:
    node.on_message = lambda message: node.peers.send(1, BEAT) if isinstance(message, Asked) else None


async def ask_until_answered(node: LoopbackNode) -> None:
    """As nodes do: what is lost is asked again."""
    before = node.received.count(BEAT)
    while node.received.count(BEAT) == before:
        node.peers.send(2, HEARTBEAT)
        await asyncio.sleep(0.02)


class TestTimeouts:
    @on_loop
    async def test_a_connection_that_opens_and_times_out_in_one_turn_is_replaced(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """uvloop tells its protocol that it is open, and not that it is closed: a follower on a busy machine
        sent its fetches there for ever.
        """
        timeout_s = 0.05
        monkeypatch.setattr(channel, "CONNECT_TIMEOUT_S", timeout_s)
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            opened, slow = one.peers.presence.opened, [True]

            def opened_slowly(peer: int) -> None:
                opened(peer)
                if slow:
                    slow.clear()
                    time.sleep(2 * timeout_s)  # The loop is busy, and the timeout is over.

            monkeypatch.setattr(one.peers.presence, "opened", opened_slowly)
            one.peers.send(2, HEARTBEAT)
            await until(lambda: not slow)
            async with asyncio.timeout(20):
                await ask_until_answered(one)
            assert one.peers.presence._open == {2: 1}


class TestLosingANode:
    @on_loop
    async def test_is_told_once_when_it_dies(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            one.peers.send(2, HEARTBEAT)
            one.peers.send(2, fetch_ask(1))
            await until(lambda: len(two.received) == 2 and one.received)
            await two.die()
            await until(lambda: one.lost)
            assert one.lost == [2]
            await until(lambda: one.dead == [2])
            # The fetch under way is not answered besides: who lost a node knows that.
            assert one.received == [BEAT]

    @on_loop
    async def test_is_told_to_the_one_that_was_asked_as_well(self) -> None:
        """A controller has no questions to its brokers: it learns of a death from connections to itself."""
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.received)
            await one.die()
            await until(lambda: two.lost)
            assert two.lost == [1]

    @on_loop
    async def test_is_told_though_its_fetch_still_waits_for_an_answer(self) -> None:
        """Its process is dead: a question of its that nobody has answered is no sign of life."""
        async with LoopbackCluster(2) as (one, two):
            one.peers.send(2, fetch_ask(1))
            one.peers.send(2, HEARTBEAT)
            await until(lambda: len(two.received) == 2)
            assert not any(connection.idle for connection in two.server.connections)
            await one.die()
            await until(lambda: two.lost == [1])
            await until(lambda: not two.server.connections)

    @on_loop
    async def test_is_dead_though_its_listener_closes_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that ends closes one descriptor after the other."""
        probed = 0

        async def at_last(host: str, port: int) -> bool:
            nonlocal probed
            probed += 1
            return probed == 3

        monkeypatch.setattr(peers, "refuses_connections", at_last)
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            await ask_until_answered(one)
            await two.die()
            await until(lambda: one.dead == [2])
            assert probed == 3

    @on_loop
    async def test_is_not_dead_for_a_refusal_from_long_ago(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The process was frozen while it asked: the node may have been started again."""
        probed = 0

        async def at_last(host: str, port: int) -> bool:
            nonlocal probed
            probed += 1
            await asyncio.sleep(0.1 if probed == 1 else 0)
            return probed != 2

        monkeypatch.setattr(peers, "refuses_connections", at_last)
        monkeypatch.setattr(peers, "STALE_MS", 50)
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            await ask_until_answered(one)
            await two.die()
            await until(lambda: probed == 2)
            assert one.dead == []
            await until(lambda: one.dead == [2])

    @on_loop
    async def test_is_told_when_nobody_listens(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            await two.die()
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.lost == [2])

    @pytest.mark.slow
    @on_loop
    async def test_is_told_again_but_not_all_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        attempts = 0
        connect = channel.Channel._connect

        async def counted(self: channel.Channel, host: str, port: int) -> None:
            nonlocal attempts
            attempts += 1
            await connect(self, host, port)

        monkeypatch.setattr(channel.Channel, "_connect", counted)
        monkeypatch.setattr(channel, "BACKOFF_MAX_MS", 20)
        async with LoopbackCluster(2) as (one, two):
            await two.die()
            while len(one.lost) < 3:
                one.peers.send(2, HEARTBEAT)
                one.peers.send(2, fetch_ask(1))
                await asyncio.sleep(0.005)
            assert attempts > 2 * len(one.lost)

    @on_loop
    async def test_goes_on_when_it_is_back(self) -> None:
        async with LoopbackCluster(2) as nodes:
            one, two = nodes
            beating(two)
            await ask_until_answered(one)
            _, port = two.cluster.addresses[2]
            await two.die()
            await until(lambda: one.lost)
            again = LoopbackNode(two.cluster, 2)
            beating(again)
            await again.listen(port)
            await ask_until_answered(one)
            await again.stop()

    @on_loop
    async def test_is_asked_at_once_when_it_shows_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who comes back says so itself: nobody waits for the next attempt then."""
        monkeypatch.setattr(channel, "BACKOFF_MS", 3_600_000)
        monkeypatch.setattr(channel, "BACKOFF_MAX_MS", 3_600_000)
        async with LoopbackCluster(2) as nodes:
            one, two = nodes
            _, port = two.cluster.addresses[2]
            await two.die()
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.lost)
            one.peers.send(2, HEARTBEAT)
            again = LoopbackNode(two.cluster, 2)
            beating(again)
            await again.listen(port)
            again.peers.send(1, Asked(2, HeartbeatAsk(2, 78, 5)))
            await until(lambda: BEAT in one.received)
            await again.stop()

    @on_loop
    async def test_an_unknown_address_is_no_death(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            address = one.cluster.addresses.pop(2)
            one.peers.send(2, HEARTBEAT)
            await asyncio.sleep(0.05)
            one.cluster.addresses[2] = address
            beating(two)
            await ask_until_answered(one)
            assert one.lost == []

    @on_loop
    async def test_one_connection_of_several_is_no_death(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.received)
            one.peers.send(2, fetch_ask(9))
            await until(lambda: len(two.received) == 2)
            (fetching,) = [each for each in two.server.connections if not each.idle]
            fetching.close("for the test")
            await until(lambda: len(one.received) == 2)
            assert one.received[1] == FetchGot(2, 9, ErrorCode.NETWORK_EXCEPTION, [])
            one.peers.send(2, fetch_ask(10))
            await until(lambda: len(two.received) == 3)
            assert one.lost == two.lost == []

    @on_loop
    async def test_a_stopping_node_tells_nothing_of_others(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            beating(two)
            await ask_until_answered(one)
            one.peers.stop()
            await two.die()
            await asyncio.sleep(0.02)
            assert one.lost == []


class TestOldQuestions:
    @on_loop
    async def test_only_the_newest_wait_for_a_connection(self) -> None:
        async with LoopbackCluster(2) as (one, _):
            address = one.cluster.addresses.pop(2)
            way = one.peers.channel(2, "requests")
            lost: list[int] = []
            answered: list[memoryview] = []

            class Question:
                def __init__(self, number: int) -> None:
                    self.number = number

                def answered(self, answer: memoryview) -> None:
                    answered.append(answer)

                def lost(self, *, sent: bool) -> None:
                    assert not sent
                    lost.append(self.number)

            way._not_before_ms = one.services.uptime_ms() + 50
            one.cluster.addresses[2] = address
            for number in range(channel.QUEUE_MAX + 10):
                way.send(way.next_correlation_id(), b"\0\0\0\1x", Question(number))
                assert not lost, "nobody is called back while asking"
            await until(lambda: len(lost) >= 10)
            assert lost[:10] == list(range(10))

    @on_loop
    async def test_a_node_that_reads_nothing_is_not_asked_without_end(self) -> None:
        """Frozen: its kernel takes connections and some bytes, and then nothing more."""
        async with LoopbackCluster(1) as (one,):
            frozen = socket.socket()
            frozen.bind(("127.0.0.1", 0))
            frozen.listen()
            one.cluster.addresses[2] = frozen.getsockname()
            for generation in range(3 * channel.UNANSWERED_MAX):
                one.peers.send(2, fetch_ask(generation))
                if generation % 50 == 0:
                    await asyncio.sleep(0.001)
            way = one.peers.channel(2, "fetching")
            assert len(way._unanswered) == channel.UNANSWERED_MAX
            frozen.close()


def hostile(answer: Callable[[bytes], bytes]) -> asyncio.Protocol:
    class Hostile(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(answer(data))  # type: ignore[attr-defined]

    return Hostile()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def correlation_of(data: bytes) -> bytes:
    return data[8:12]


NONSENSE: dict[str, Callable[[bytes], bytes]] = {
    "not a frame": lambda data: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame without an end": lambda data: struct.pack(">i", 1 << 30),
    "a negative size": lambda data: struct.pack(">i", -5),
    "too small": lambda data: framed(b"abc"),
    "an answer that ends too early": lambda data: framed(correlation_of(data) + b"\0\0\0\0"),
    "an answer full of counts": lambda data: framed(correlation_of(data) + b"\0" + b"\xff" * 40),
}


class TestNonsense:
    @pytest.mark.parametrize("kind", NONSENSE)
    @on_loop
    async def test_as_an_answer_closes_the_connection(
        self, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        loop = asyncio.get_running_loop()
        async with LoopbackCluster(1) as (one,):
            listener = await loop.create_server(lambda: hostile(NONSENSE[kind]), "127.0.0.1", 0)
            one.cluster.addresses[2] = listener.sockets[0].getsockname()
            with caplog.at_level(logging.INFO):
                one.peers.send(2, fetch_ask(1))
                one.peers.send(2, HEARTBEAT)
                await until(lambda: one.lost)
            # At most the news that one of two connections broke.
            assert all(message.error is ErrorCode.NETWORK_EXCEPTION for message in one.received)  # type: ignore[union-attr]
            lines = [record.message for record in caplog.records if "lost the connection" in record.message]
            assert 1 <= len(lines) <= 2, lines
            listener.close()

    @on_loop
    async def test_an_answer_to_another_question_is_ignored(self) -> None:
        loop = asyncio.get_running_loop()
        async with LoopbackCluster(1) as (one,):
            other = framed(struct.pack(">i", 77) + b"\0" * 20)

            def answer(data: bytes) -> bytes:
                own = follower_fetch.encode_response(
                    int.from_bytes(correlation_of(data), "big"), ErrorCode.NONE, ()
                )
                return other + b"".join(own)

            listener = await loop.create_server(lambda: hostile(answer), "127.0.0.1", 0)
            one.cluster.addresses[2] = listener.sockets[0].getsockname()
            one.peers.send(2, fetch_ask(4))
            await until(lambda: one.received)
            assert one.received == [FetchGot(2, 4, ErrorCode.NONE, [])]
            listener.close()

    @pytest.mark.parametrize("cut", [1, 5, 30])
    @on_loop
    async def test_as_a_question_closes_the_connection(self, cut: int) -> None:
        async with LoopbackCluster(2) as (_, two):
            asker = follower_fetch.asker(names.client_id(1, 2), None)
            ask = follower_fetch.Ask(1, 2, 3, 0, 300, 1 << 20)
            frame = follower_fetch.encode_ask(asker, 1, ask, [((TOPIC, 0), 1, 2, 3, 4, 5)], [])
            body = bytearray(frame[4:])
            place = body.index(TOPIC.bytes) + 16  # the number of partitions
            body[place] = 0x7F
            del body[place + cut : place + cut + 4]
            _, writer = await asyncio.open_connection(*two.cluster.addresses[2])
            writer.write(framed(bytes(body)))
            await until(lambda: two.server.requests)
            await until(lambda: not two.server.connections)
            assert two.received == []
            assert two.lost == [1]
            writer.close()

    @on_loop
    async def test_a_second_node_with_our_own_id_is_turned_away(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with LoopbackCluster(1) as (one,):
            impostor = LoopbackNode(one.cluster, 1)
            with caplog.at_level(logging.WARNING):
                impostor.peers.send(1, HEARTBEAT)
                await until(lambda: "another broker has this one's id" in caplog.text)
            assert one.received == []
            assert one.lost == []
            await impostor.stop()


class TestClients:
    """Nodes' requests are not for clients."""

    @on_loop
    async def test_are_not_told_of_them(self) -> None:
        async with LoopbackCluster(1) as (one,):
            versions = await asyncio.to_thread(lambda: _versions(one.bootstrap))
            assert "fetch" in versions
            nodes_only = {
                "vote", "broker_registration", "broker_heartbeat", "alter_partition", "envelope",
                "fetch_snapshot", "allocate_producer_ids",
            }  # fmt: skip
            assert not nodes_only & set(versions)

    @on_loop
    async def test_keep_the_order_of_their_answers(self) -> None:
        async with LoopbackCluster(1) as (one,):
            answers = await asyncio.to_thread(lambda: _in_order(one.bootstrap))
            assert answers == list(range(1, 6))

    @on_loop
    async def test_wait_until_the_broker_is_let_in_but_nodes_do_not(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            two.server.ready = False
            beating(two)
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.received == [BEAT])
            with pytest.raises(ConnectionEnded):
                await asyncio.to_thread(lambda: _versions(two.bootstrap))

    @on_loop
    async def test_a_lone_broker_takes_none(self) -> None:
        async with LoopbackCluster(2) as (one, two):
            two.server.gate = None
            one.peers.send(2, HEARTBEAT)
            await until(lambda: one.lost)
            assert two.received == []


def _versions(bootstrap: str) -> dict[str, range]:
    with Wire(bootstrap) as wire:
        return wire.versions()


def _in_order(bootstrap: str) -> list[int]:
    with Wire(bootstrap) as wire:
        for _ in range(5):
            wire.send("metadata", 12, topics=[])
        return [int.from_bytes(wire.receive_frame()[:4], "big") for _ in range(5)]


def test_names() -> None:
    assert names.parties(names.client_id(12, 3)) == (12, 3)
    for other in (
        None,
        "",
        "rdkafka",
        "tidelog-node-",
        "tidelog-node-1",
        "tidelog-node-x-to-2",
        "tidelog-node-1-to-",
        "tidelog-node--1-to-2",
        "tidelog-node-1-to-²",
    ):
        assert names.parties(other) is None
