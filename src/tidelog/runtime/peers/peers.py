"""Messages between nodes over sockets: implements :class:`~tidelog.broker.node.node.NodePeers`.

A question is sent as a request on an outgoing connection. There are three connections to each node: for
fetches, for votes and heartbeats, which must not wait for data, and for requests between brokers. Questions
of one kind to one node are sent together if they are asked in the same turn of the event loop. The answer is
passed to the node as a message.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

from tidelog.broker.node.ports import Asked, NodeMessage
from tidelog.errors import ErrorCode
from tidelog.protocol import follower_fetch, requests
from tidelog.protocol.follower_fetch import Key, Pair
from tidelog.protocol.wire import skip_tags
from tidelog.replication.messages import (
    Bytes,
    FetchAsk,
    FetchGot,
    FetchPart,
    LeaderBegan,
    PartitionKey,
    SnapshotAsk,
    StandNow,
    TailAsk,
    VoteRequested,
)
from tidelog.runtime.peers import names
from tidelog.runtime.peers.channel import BACKOFF_MS, Address, AddressOf, Channel, Open, Surroundings
from tidelog.runtime.peers.exchange import Exchange
from tidelog.runtime.peers.exchanges import exchange_of
from tidelog.runtime.peers.inbound import Inbound
from tidelog.runtime.peers.node_login import NewLogin
from tidelog.runtime.peers.presence import Presence
from tidelog.runtime.peers.sockets import refuses_connections
from tidelog.services import Services, ignore
from tidelog.types import SnapshotId

logger = logging.getLogger(__name__)

Question = VoteRequested | Asked | SnapshotAsk | LeaderBegan | StandNow | TailAsk
"""Questions and notices, except fetches; all other messages are answers."""

FETCHING, CONTROL, REQUESTS = "fetching", "control", "requests"  # the purposes of channels

# before each check whether a process still listens at the address of a lost node
DEATH_CHECK_PAUSES_S = (0.0, 0.003, 0.01, 0.03)
STALE_MS = 500  # A check that took longer says nothing about now.

NO_LOGIN = "it has a cluster secret, and this one has logged in with none (cluster.secret.file)"

SEVERAL_BATCHES = 16 << 20  # what a response may contain besides the largest batch


class WirePeers:
    def __init__(
        self,
        me: int,
        loop: asyncio.AbstractEventLoop,
        services: Services,
        address_of: AddressOf,
        cluster_id: Callable[[], str],
        max_bytes: int,
        addresses_of: Callable[[int], Sequence[Address]] | None = None,
        on_foreign: Callable[[int], None] = ignore,
        open_connection: Open | None = None,
        logins: NewLogin | None = None,
    ) -> None:
        """``address_of``: the next address to try. ``addresses_of``: all possible addresses of a node, to
        verify that it listens at none. ``max_bytes``: the size of the largest possible batch. ``on_foreign``
        is called with nodes that belong to another cluster. ``open_connection``: without it, connections are
        plain. ``logins``: how this node logs in to others.
        """
        self._me = me
        self._services = services
        self._cluster_id = cluster_id
        self.presence = Presence(services, self._found, self._lost)
        self._refused_by: set[int] = set()  # nodes that do not take this one for a node; one log line each
        self._around = Surroundings(
            loop, services, self.presence, address_of, max_bytes + SEVERAL_BATCHES,
            open_connection or self._open_plain, logins,
        )  # fmt: skip
        self._channels: dict[tuple[int, str], Channel] = {}
        self._asker_of = ""  # the cluster id in the cached headers
        self._askers: dict[int, follower_fetch.FetchHeader] = {}  # cached headers of fetches, by receiver
        self._together: dict[tuple[int, int], list[NodeMessage]] = {}  # (to, api) → questions of this turn
        self.inbound = Inbound(me, services, self.presence, cluster_id)
        self._receive: Callable[[NodeMessage], None] = ignore
        self._peer_lost: Callable[[int], None] = ignore
        self._peer_dead: Callable[[int], None] = ignore
        self._on_foreign = on_foreign
        self._death_checks: set[asyncio.Task[None]] = set()
        self._addresses_of = addresses_of or self._one_address

    def connect(
        self,
        receive: Callable[[NodeMessage], None],
        peer_lost: Callable[[int], None],
        peer_dead: Callable[[int], None],
    ) -> None:
        """Set the callbacks of the node. They are set later, because the node is created with its peers."""
        self._receive = self.inbound.receive = receive
        self._peer_lost = peer_lost
        self._peer_dead = peer_dead

    def stop(self) -> None:
        self.presence.stop()
        for channel in self._channels.values():
            channel.close()

    def _found(self, peer: int) -> None:
        for channel in list(self._channels.values()):
            if channel.peer == peer:
                channel.hurry()

    def _lost(self, peer: int) -> None:
        self._peer_lost(peer)
        if not self._addresses_of(peer):
            self.presence.forget(peer)
            return
        check = self._around.loop.create_task(self._confirm_death(peer))
        self._death_checks.add(check)
        check.add_done_callback(self._death_checks.discard)

    async def _open_plain(self, protocol: asyncio.BufferedProtocol, peer: int, host: str, port: int) -> None:
        await self._around.loop.create_connection(lambda: protocol, host, port)

    def _one_address(self, peer: int) -> Sequence[Address]:
        address = self._around.address_of(peer)
        return [] if address is None else [address]

    async def _confirm_death(self, peer: int) -> None:
        """All connections of a node have closed. If no process listens at its address, its process has ended,
        and its session need not be waited for. The check is repeated, because an ending process closes one
        descriptor after another, and its listening socket may be closed after the connections.
        """
        for pause_s in DEATH_CHECK_PAUSES_S:
            await asyncio.sleep(pause_s)
            if self.presence.is_there(peer):
                return
            asked_ms = self._services.uptime_ms()
            is_nowhere = await self._is_nowhere(peer)
            if self._services.uptime_ms() - asked_ms > STALE_MS:
                continue  # This process was frozen. Another process of the peer may have registered since.
            if is_nowhere:
                if not self.presence.is_there(peer):
                    self._peer_dead(peer)
                return

    async def _is_nowhere(self, peer: int) -> bool:
        addresses = self._addresses_of(peer)
        for address in addresses:
            if not await refuses_connections(*address):
                return False
        return bool(addresses)

    def channel(self, to: int, purpose: str) -> Channel:
        channel = self._channels.get((to, purpose))
        if channel is None:
            channel = self._channels[to, purpose] = Channel(to, purpose, self._around)
        return channel

    # --- sending --------------------------------------------------------------------------------------------

    def send(self, to: int, message: NodeMessage) -> None:
        if isinstance(message, FetchAsk):
            self._fetch(to, message)
        elif isinstance(message, FetchGot):
            self.inbound.respond_to_fetch(to, message)
        elif isinstance(message, Question):
            self._ask(to, message)
        else:
            self.inbound.respond(to, message)

    def _fetch(self, to: int, ask: FetchAsk) -> None:
        cluster_id = self._cluster_id()
        if cluster_id != self._asker_of:
            self._asker_of = cluster_id
            self._askers.clear()
        asker = self._askers.get(to)
        if asker is None:
            asker = self._askers[to] = follower_fetch.asker(names.client_id(self._me, to), cluster_id)
        channel = self.channel(to, FETCHING)
        correlation_id = channel.next_correlation_id()
        frame = follower_fetch.encode_ask(
            asker,
            correlation_id,
            follower_fetch.Ask(
                ask.sender, ask.broker_epoch, ask.generation, ask.since, ask.max_wait_ms, ask.max_bytes,
                ask.directory, ask.heard, cast("Sequence[tuple[Key, UUID]]", ask.other_directories),
            ),
            cast("list[follower_fetch.Item]", ask.items),
            cast("list[Key]", ask.forgotten),
        )  # fmt: skip
        channel.send(correlation_id, frame, FetchQuestion(self, to, ask.generation))

    def _ask(self, to: int, message: Question) -> None:
        exchange = exchange_of(message)
        if exchange.at_once_max == 1:
            self._request(to, exchange, [message])
            return
        together = self._together.get((to, exchange.api_key))
        if together is None:
            self._together[to, exchange.api_key] = [message]
            self._services.soon(lambda: self._leave_together(to, exchange))
        else:
            together.append(message)

    def _leave_together(self, to: int, exchange: Exchange[Any, Any]) -> None:
        """One request at a time: what cannot go with it leaves in the next turn."""
        asks = self._together.pop((to, exchange.api_key))
        first, rest = asks[: exchange.at_once_max], asks[exchange.at_once_max :]
        if rest:
            self._together[to, exchange.api_key] = rest
            self._services.soon(lambda: self._leave_together(to, exchange))
        self._request(to, exchange, first)

    def _request(self, to: int, exchange: Exchange[Any, Any], asks: Sequence[NodeMessage]) -> None:
        channel = self.channel(to, FETCHING if isinstance(asks[0], SnapshotAsk) else CONTROL)
        correlation_id = channel.next_correlation_id()
        body = exchange.body(to, self._cluster_id(), asks)
        frame = requests.encode_request(exchange.api_key, correlation_id, names.client_id(self._me, to), body)
        channel.send(correlation_id, frame, ExchangeQuestion(self, to, exchange, asks))

    # --- responses ------------------------------------------------------------------------------------------

    def fetch_answered(self, peer: int, generation: int, response: memoryview) -> None:
        error, parts = follower_fetch.decode_response(response, skip_tags(response, 4), _part)
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            # Not passed to the node, which would only retry immediately.
            self._on_foreign(peer)
            return
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._tell_refused(peer)
            self.fetch_lost(peer, generation)
            return
        self._receive(FetchGot(peer, generation, error, parts))

    def _tell_refused(self, peer: int) -> None:
        if peer not in self._refused_by:
            self._refused_by.add(peer)
            logger.error("node %s does not take this one for a node of its cluster: %s", peer, NO_LOGIN)

    def fetch_lost(self, peer: int, generation: int) -> None:
        """If only this connection broke, the fetch restarts on a new one. If the node has ended, all its
        connections break almost at the same time, and that is reported separately.
        """

        def tell() -> None:
            if self.presence.is_there(peer):
                self._receive(FetchGot(peer, generation, ErrorCode.NETWORK_EXCEPTION, []))

        self._services.later(BACKOFF_MS, tell)

    def exchange_answered(
        self, peer: int, exchange: Exchange[Any, Any], asks: Sequence[NodeMessage], response: memoryview
    ) -> None:
        decoded = requests.decode_response(exchange.api_key, response)
        error = getattr(decoded, "error_code", None)
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._on_foreign(peer)
        elif error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._tell_refused(peer)
            return  # The node repeats the question.
        for got in exchange.gots(peer, asks, decoded):
            self._receive(got)


class FetchQuestion:
    __slots__ = ("_generation", "_peer", "_peers")

    def __init__(self, peers: WirePeers, peer: int, generation: int) -> None:
        self._peers = peers
        self._peer = peer
        self._generation = generation

    def answered(self, response: memoryview) -> None:
        self._peers.fetch_answered(self._peer, self._generation, response)

    def lost(self, *, sent: bool) -> None:
        self._peers.fetch_lost(self._peer, self._generation)


class ExchangeQuestion:
    __slots__ = ("_asks", "_exchange", "_peer", "_peers")

    def __init__(
        self, peers: WirePeers, peer: int, exchange: Exchange[Any, Any], asks: Sequence[NodeMessage]
    ) -> None:
        self._peers = peers
        self._peer = peer
        self._exchange = exchange
        self._asks = asks

    def answered(self, response: memoryview) -> None:
        self._peers.exchange_answered(self._peer, self._exchange, self._asks, response)

    def lost(self, *, sent: bool) -> None:
        """Nothing to do: the node repeats the question if necessary."""


def _part(
    key: Key,
    offset: int,
    error: ErrorCode,
    epoch: int,
    leader: int,
    high_watermark: int,
    log_start_offset: int,
    records: memoryview | None,
    diverging: Pair | None,
    snapshot: Pair | None,
) -> FetchPart:
    return FetchPart(
        cast(PartitionKey, key),
        offset,
        error,
        epoch,
        leader,
        high_watermark,
        log_start_offset,
        None if records is None else Bytes(records),
        diverging,
        None if snapshot is None else SnapshotId(*snapshot),
    )
