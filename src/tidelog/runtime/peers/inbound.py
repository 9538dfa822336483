"""Requests of other nodes: converts them to messages, and the messages that answer them to responses.

A request waits until the node has answered every question in it. An answer is matched to its request by
sender and token. A question that is not answered in time gets an error, so that the number of pending
requests stays bounded.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

from tidelog.broker.node.ports import NodeMessage
from tidelog.broker.requests.request import HangUp, RequestContext
from tidelog.errors import ErrorCode
from tidelog.log.storage import Region
from tidelog.protocol import follower_fetch, messages, requests
from tidelog.protocol.fetch import Part
from tidelog.protocol.wire import Malformed
from tidelog.replication.messages import (
    FetchAsk,
    FetchGot,
    FetchItem,
    FetchPart,
    PartitionKey,
    Readable,
)
from tidelog.runtime.peers import names
from tidelog.runtime.peers.exchange import Exchange
from tidelog.runtime.peers.exchanges import BY_API, exchange_of
from tidelog.runtime.peers.presence import Presence
from tidelog.services import Services, Timer

logger = logging.getLogger(__name__)

Reply = Callable[[Sequence[Part | bytes]], None]

FOREIGN_MAX = 64  # clusters that are logged; a limit, because clients can invent more
RESPOND_WITHIN_MS = 15_000  # longer than the controllers' timeout for a decision


class Inbound:
    def __init__(
        self, me: int, services: Services, presence: Presence, cluster_id: Callable[[], str]
    ) -> None:
        self._me = me
        self._services = services
        self._presence = presence
        self._cluster_id = cluster_id
        self.receive: Callable[[NodeMessage], None] = lambda message: None
        self._foreign: set[str] = set()  # other clusters whose nodes connected here; one log line each
        self._fetches: dict[tuple[int, int], PendingFollowerFetch] = {}  # by sender and generation
        self._newest: dict[int, PendingFollowerFetch] = {}  # of each sender
        self._pending: dict[Hashable, deque[tuple[PendingPeerRequest, int]]] = {}  # request and place in it

    def serves(self, api_key: int, version: int) -> bool:
        return api_key in BY_API and version == requests.newest(api_key)

    # --- connections ----------------------------------------------------------------------------------------

    def connected(self, node: int, to: int) -> None:
        if to != self._me:
            raise HangUp(f"node {node} expects node {to} at this address")
        if node == self._me:
            raise HangUp(f"another broker has this one's id, {node}")
        self._presence.opened(node)

    def disconnected(self, node: int) -> None:
        self._presence.closed(node)

    # --- fetches --------------------------------------------------------------------------------------------

    def fetch(
        self, request: memoryview, position: int, context: RequestContext, reply: Reply
    ) -> "PendingFollowerFetch | None":
        head, items, forgotten, cluster_id = follower_fetch.decode_ask(request, position, FetchItem)
        _check_sender(head.sender, context)
        if self._is_foreign(cluster_id):
            refusal = follower_fetch.encode_response(
                context.correlation_id, ErrorCode.INCONSISTENT_CLUSTER_ID, ()
            )
            reply(cast(list[Part | bytes], refusal))
            return None
        sender, broker_epoch, generation, since, max_wait_ms, max_bytes, directory, heard, others = head
        pending = PendingFollowerFetch(self, sender, generation, context.correlation_id, reply)
        previous = self._newest.get(sender)
        self._fetches[sender, generation] = self._newest[sender] = pending
        ask = FetchAsk(
            sender, broker_epoch, generation, since, items, cast(list[PartitionKey], forgotten), max_wait_ms,
            max_bytes, directory, heard, tuple(others),
        )  # fmt: skip
        try:
            self.receive(ask)
        except BaseException:
            pending.cancel()
            raise
        if previous is not None:
            # A sender has one pending fetch; the previous one is obsolete.
            previous.finish_now()
        return pending

    def respond_to_fetch(self, to: int, got: FetchGot) -> None:
        pending = self._fetches.get((to, got.generation))
        if pending is not None:
            pending.respond(got.error, got.parts)

    def forget_fetch(self, pending: "PendingFollowerFetch") -> None:
        if self._fetches.get((pending.sender, pending.generation)) is pending:
            del self._fetches[pending.sender, pending.generation]
        if self._newest.get(pending.sender) is pending:
            del self._newest[pending.sender]

    # --- everything else ------------------------------------------------------------------------------------

    def take(
        self, request: memoryview, position: int, context: RequestContext, reply: Reply
    ) -> "PendingPeerRequest | None":
        exchange = BY_API[context.api_key]
        decoded = messages.decode(
            context.api_key, context.version, request, position, elements_max=exchange.elements_max
        )
        if self._is_foreign(getattr(decoded, "cluster_id", None)):
            reply((_encode(context, {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID}),))
            return None
        asks = _asks(exchange, decoded)
        for ask in asks:
            _check_sender(ask.sender, context)
        pending = PendingPeerRequest(self, exchange, asks, context, reply)
        if exchange.one_way or not asks:
            for ask in asks:
                self.receive(ask)
            pending.finish_now()
            return None
        for place, ask in enumerate(asks):
            token = (ask.sender, context.api_key, exchange.token(ask))
            self._pending.setdefault(token, deque()).append((pending, place))
        pending.timer = self._services.later(RESPOND_WITHIN_MS, pending.finish_now)
        try:
            for ask in asks:
                self.receive(ask)
        except BaseException:
            pending.cancel()
            raise
        return pending

    def respond(self, to: int, message: NodeMessage) -> None:
        exchange = exchange_of(message)
        token = (to, exchange.api_key, exchange.token(message))
        row = self._pending.get(token)
        if row is None:
            return  # Its connection has closed, or the response was already sent.
        pending, place = row.popleft()
        if not row:
            del self._pending[token]
        pending.respond(place, message)

    def forget(self, pending: "PendingPeerRequest") -> None:
        for ask in pending.asks:
            token = (ask.sender, pending.exchange.api_key, pending.exchange.token(ask))
            row = self._pending.get(token)
            if row is not None:
                left = deque(entry for entry in row if entry[0] is not pending)
                if left:
                    self._pending[token] = left
                else:
                    del self._pending[token]

    def _is_foreign(self, cluster_id: str | None) -> bool:
        ours = self._cluster_id()
        if not ours or not cluster_id or cluster_id == ours:
            return False
        if cluster_id not in self._foreign and len(self._foreign) < FOREIGN_MAX:
            self._foreign.add(cluster_id)
            logger.error("refused a node of cluster %s; this is cluster %s", cluster_id, ours)
        return True


def _asks(exchange: Exchange[Any, Any], decoded: Any) -> list[Any]:
    """The questions of a request. Raises Malformed: any client can send a well-formed but invalid request."""
    try:
        asks = list(exchange.asks(decoded))
    except (AttributeError, TypeError, ValueError) as error:
        raise Malformed(f"an invalid request between nodes: {error}") from None
    if len(asks) > exchange.at_once_max:
        raise Malformed(f"a request between nodes with {len(asks)} questions")
    return asks


def _check_sender(sender: int, context: RequestContext) -> None:
    """A node speaks for itself. What is remembered of a sender is forgotten when its connections close, so a
    client that invents senders must keep a connection open for each.
    """
    parties = names.parties(context.client_id)
    if parties is None or parties[0] != sender:
        raise Malformed(f"a request of node {sender} from another client: {str(context.client_id)[:50]!r}")


class PendingFollowerFetch:
    """A follower's fetch that the node has not answered yet."""

    __slots__ = ("_correlation_id", "_done", "_inbound", "_reply", "generation", "sender")

    def __init__(
        self, inbound: Inbound, sender: int, generation: int, correlation_id: int, reply: Reply
    ) -> None:
        self._inbound = inbound
        self.sender = sender
        self.generation = generation
        self._correlation_id = correlation_id
        self._reply = reply
        self._done = False

    def respond(self, error: ErrorCode, parts: list[FetchPart]) -> None:
        if self._done:
            return
        self.cancel()
        pieces = follower_fetch.encode_response(
            self._correlation_id, error, cast("list[follower_fetch.Part[Readable]]", parts)
        )
        # Regions of files are passed to the sender unchanged, other parts as bytes.
        self._reply(
            [
                piece if isinstance(piece, bytearray | Region) else cast(bytes, piece.read())
                for piece in pieces
            ]
        )

    def finish_now(self) -> None:
        self.respond(ErrorCode.NONE, [])

    def cancel(self) -> None:
        self._done = True
        self._inbound.forget_fetch(self)


class PendingPeerRequest:
    """Any other request of a node, with one or more questions in it."""

    __slots__ = ("_context", "_done", "_gots", "_inbound", "_missing", "_reply", "asks", "exchange", "timer")

    def __init__(
        self,
        inbound: Inbound,
        exchange: Exchange[Any, Any],
        asks: list[Any],
        context: RequestContext,
        reply: Reply,
    ) -> None:
        self._inbound = inbound
        self.exchange = exchange
        self.asks = asks
        self._context = context
        self._reply = reply
        self._gots: list[NodeMessage | None] = [None] * len(asks)
        self._missing = len(asks)
        self._done = False
        self.timer: Timer | None = None

    def respond(self, place: int, got: NodeMessage) -> None:
        self._gots[place] = got
        self._missing -= 1
        if not self._missing:
            self.finish_now()

    def finish_now(self) -> None:
        if self._done:
            return
        self.cancel()
        self._reply((_encode(self._context, self.exchange.response(self.asks, self._gots)),))

    def cancel(self) -> None:
        self._done = True
        if self.timer is not None:
            self.timer.cancel()
        if self._missing and not self.exchange.one_way:
            self._inbound.forget(self)


def _encode(context: RequestContext, fields: messages.Fields) -> bytes:
    return messages.encode(context.api_key, context.version, context.correlation_id, fields)
