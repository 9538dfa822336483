"""A permanent channel to one node: opens a connection when there is something to send, and reconnects.

A bounded number of requests waits while a connection is being opened. If there are more, the oldest are
dropped, because nodes repeat their requests. The sender is notified when no response can arrive any more.
There are no callbacks from inside :meth:`Channel.send`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from tidelog.protocol.wire import INT32
from tidelog.runtime.peers.connection import PeerConnection
from tidelog.runtime.peers.node_login import NewLogin
from tidelog.runtime.peers.presence import Presence
from tidelog.services import Services, Timer

logger = logging.getLogger(__name__)

Address = tuple[str, int]
AddressOf = Callable[[int], Address | None]
Open = Callable[[asyncio.BufferedProtocol, int, str, int], Awaitable[None]]
"""Connects a protocol to an address of a node, and returns when the connection can be used."""

BACKOFF_MS = 20  # before the first reconnect; doubles up to BACKOFF_MAX_MS
BACKOFF_MAX_MS = 500
CONNECT_TIMEOUT_S = 2.0  # with the login
QUEUE_MAX = 64  # requests that wait for a connection
UNANSWERED_MAX = 1000  # of one connection; further requests to the node are dropped

_LAST_CORRELATION_ID = (1 << 31) - 1


class Question(Protocol):
    """A pending request."""

    def answered(self, response: memoryview) -> None:
        """``response``: the frame from its correlation id on. Raises ``Malformed`` if invalid."""

    def lost(self, *, sent: bool) -> None:
        """There will be no response. If the request was ``sent``, it may have arrived."""


class Surroundings(NamedTuple):
    """Shared by all channels of a node."""

    loop: asyncio.AbstractEventLoop
    services: Services
    presence: Presence
    address_of: AddressOf
    max_bytes: int  # of a response
    open: Open  # connects to an address of a node
    new_login: NewLogin | None = None  # None: nodes do not log in to each other.


class Channel:
    def __init__(self, peer: int, purpose: str, around: Surroundings) -> None:
        self.peer = peer
        self._purpose = purpose
        self._around = around
        self._services = around.services
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: Timer | None = None  # until the next attempt
        self._backoff_ms = BACKOFF_MS
        self._not_before_ms = 0
        self._queue: deque[tuple[int, bytes | bytearray, Question]] = deque()
        self._unanswered: dict[int, Question] = {}
        self._correlation_id = 0
        self._heard = False  # Whether a response has arrived on the connection.
        self._closed = False

    def next_correlation_id(self) -> int:
        self._correlation_id = self._correlation_id % _LAST_CORRELATION_ID + 1
        return self._correlation_id

    def send(self, correlation_id: int, frame: bytes | bytearray, question: Question) -> None:
        if self._connection is None:
            self._queue.append((correlation_id, frame, question))
            if len(self._queue) > QUEUE_MAX:
                self._lose_soon(self._queue.popleft()[2])
            self._open_soon()
        elif len(self._unanswered) >= UNANSWERED_MAX:
            self._lose_soon(question)
        else:
            self._unanswered[correlation_id] = question
            self._connection.send(frame)

    def _lose_soon(self, question: Question) -> None:
        self._services.soon(lambda: question.lost(sent=False))

    def hurry(self) -> None:
        """The node is reachable again: reconnect without further delay."""
        self._not_before_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._open()

    def forget(self, correlation_id: int) -> None:
        """The response is no longer needed."""
        self._unanswered.pop(correlation_id, None)

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        self._unanswered.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close("this node stops")

    # --- opening --------------------------------------------------------------------------------------------

    def _open_soon(self) -> None:
        if self._opening is not None or self._timer is not None or self._closed:
            return
        wait_ms = self._not_before_ms - self._services.uptime_ms()
        if wait_ms > 0:
            self._timer = self._services.later(wait_ms, self._open)
        else:
            self._open()

    def _open(self) -> None:
        self._timer = None
        address = self._around.address_of(self.peer)
        if address is None:
            self._back_off()
            self._services.soon(self._give_up_queue)
        else:
            self._opening = self._around.loop.create_task(self._connect(*address))

    async def _connect(self, host: str, port: int) -> None:
        around = self._around
        login = None if around.new_login is None else around.new_login(self.peer)
        connection = PeerConnection(self, self._services, around.max_bytes, login)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await around.open(connection, self.peer, host, port)
                await connection.opened()
        except (OSError, TimeoutError) as error:
            self._opening = None
            if not connection.abandon("opening it took too long"):
                self._unreachable(f"{host}:{port}", str(error) or "no response")
        except asyncio.CancelledError:
            connection.abandon("this node stops")
            raise
        else:
            self._opening = None
            if self._connection is None and self._queue:
                self._open_soon()  # It was lost again before this task went on.

    def _unreachable(self, address: str, reason: str) -> None:
        self._back_off()
        self._around.presence.unreachable(self.peer, address, reason)
        self._give_up_queue()

    def _back_off(self) -> None:
        self._not_before_ms = self._services.uptime_ms() + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)

    def _give_up_queue(self) -> None:
        queue, self._queue = self._queue, deque()
        for _, _, question in queue:
            question.lost(sent=False)

    # --- the connection -------------------------------------------------------------------------------------

    def connected(self, connection: PeerConnection) -> None:
        self._around.presence.opened(self.peer)
        if self._closed:
            connection.close("this node stops")
            return
        self._connection = connection
        self._heard = False
        queue, self._queue = self._queue, deque()
        for correlation_id, frame, question in queue:
            self.send(correlation_id, frame, question)

    def take(self, response: memoryview) -> None:
        # Only a response shows that a node of this cluster has accepted the connection.
        self._backoff_ms = BACKOFF_MS
        self._heard = True
        question = self._unanswered.pop(INT32.unpack_from(response, 0)[0], None)
        if question is not None:
            question.answered(response)

    def disconnected(self, connection: PeerConnection, reason: str) -> None:
        if not self._closed:
            logger.info("lost the connection for %s to node %s: %s", self._purpose, self.peer, reason)
        if self._connection is connection:
            self._connection = None
            if not self._heard:
                self._around.presence.turned_away(self.peer)
        self._back_off()
        unanswered, self._unanswered = self._unanswered, {}
        self._around.presence.closed(self.peer)
        for question in unanswered.values():
            question.lost(sent=True)
        if self._queue:
            self._open_soon()
