"""The memory of large requests while they arrive: who may receive, and who waits.

Only received bytes count, not announced ones. Above the limit, only the connection that began first
continues, so one request can always be completed and release its memory. The others are not read until there
is room.

**Strangers decide how many connections wait.** So the end of one request costs the same however many there
are: it schedules one look at those that wait, which lets a few of them continue, and the rest in later turns
of the event loop. What a connection may receive with one read is limited to what is left: otherwise each of
them would receive as much as the system has buffered before it is told to wait.
"""

import asyncio
from typing import Protocol

from tidelog.broker.broker import Broker
from tidelog.runtime.large_requests import HUGE_BYTES, LargeRequests

SCARCE_S = 15.0  # for a large request to be complete while others wait for memory
LOGIN_BYTES_MAX = 16 * 1024 * 1024  # of large requests of clients that have not authenticated, in all
READ_BYTES_MIN = 4 * 1024  # that a connection may receive at a time although nothing is left
WOKEN_PER_TURN = 16  # connections that waited; each reads once, a millisecond in all


class ReceivingConnection(Protocol):
    """A connection that receives a large request."""

    @property
    def memory(self) -> "MemoryShare":
        """What it holds."""

    @property
    def in_the_middle(self) -> bool:
        """Whether the request is incomplete."""

    def close(self, reason: str) -> None: ...

    def memory_freed(self) -> None:
        """It may continue to receive."""


class RequestMemory:
    """Counts the bytes of large requests. Those of other nodes have a limit of their own: they do not wait
    for clients, but any client can say that it is a node. So have those of clients that have not
    authenticated: others do not wait for strangers.
    """

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, bytes_max: int | None = None) -> None:
        """``bytes_max``: by default ``queued.max.request.bytes``."""
        self._broker = broker
        self._loop = loop
        self._bytes_max = bytes_max
        self._used = 0
        # Connections that receive a large request, oldest first, and when they began.
        self._receiving: dict[ReceivingConnection, float] = {}
        self._paused: dict[ReceivingConnection, None] = {}  # those that were told to wait, in this order
        self._is_waking = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _limit(self) -> int:
        """Negative: none."""
        return self._broker.config.queued_max_request_bytes if self._bytes_max is None else self._bytes_max

    def hold(self, count: int, connection: ReceivingConnection) -> bool:
        """Bytes of a large request have arrived. Returns whether its connection may continue to receive; if
        not, it is told when it may.
        """
        self._used += count
        self._receiving.setdefault(connection, self._loop.time())
        if self._has_room() or next(iter(self._receiving)) is connection:
            return True
        self._paused[connection] = None
        self._make_room_later()
        return False

    def _has_room(self) -> bool:
        limit = self._limit
        return limit < 0 or self._used <= limit

    def readable_bytes(self, size: int) -> int:
        """How much of ``size`` bytes a connection may receive now, before it asks again."""
        limit = self._limit
        return size if limit < 0 else min(size, max(limit - self._used, READ_BYTES_MIN))

    def release(self, count: int, connection: ReceivingConnection) -> None:
        self._used -= count
        self._receiving.pop(connection, None)
        self._paused.pop(connection, None)
        self._wake_soon()

    def _wake_soon(self) -> None:
        if self._paused and not self._is_waking:
            self._is_waking = True
            # Later: the caller must not be re-entered by the request of another connection.
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        """Let the oldest connection continue, and others while there is room."""
        self._is_waking = False
        oldest = next(iter(self._receiving), None)
        if oldest is not None and oldest in self._paused:
            self._continue(oldest)
        for _ in range(WOKEN_PER_TURN):
            if not self._paused:
                return
            if not self._has_room():
                self._make_room_later()
                return
            self._continue(next(iter(self._paused)))
        self._wake_soon()

    def _continue(self, connection: ReceivingConnection) -> None:
        del self._paused[connection]
        connection.memory.is_short = False
        connection.memory_freed()

    def _make_room_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(SCARCE_S, self._make_room)

    def _make_room(self) -> None:
        """Others have waited for a while: close the oldest requests that are still incomplete. Otherwise
        three clients that send the end of their requests byte by byte could stop the writes of all others.
        """
        self._timer = None
        limit = self._limit
        began_before = self._loop.time() - SCARCE_S
        left = self._used
        for connection, began in list(self._receiving.items()):
            if left <= limit // 2 or began > began_before:
                break
            if connection.in_the_middle and not connection.memory.is_short:
                left -= connection.memory.held_bytes
                connection.close(f"an incomplete request held memory for {SCARCE_S:.0f} s, others wait")
        if left > limit >= 0:
            self._make_room_later()


class MemoryShare:
    """What one connection holds of a memory, and its place among the huge requests that are handled."""

    __slots__ = ("_huge", "held_bytes", "is_short", "pool")

    def __init__(self, pool: RequestMemory) -> None:
        self.pool = pool
        self.held_bytes = 0
        self.is_short = False  # The connection waits until others release memory.
        self._huge: LargeRequests | None = None  # where other huge requests wait for the end of this one

    def hold(self, count: int, connection: ReceivingConnection) -> bool:
        """Bytes of a large request have arrived. Returns whether there is memory for more of them."""
        self.held_bytes += count
        has_room = self.pool.hold(count, connection)
        if not has_room:
            self.is_short = True
        return has_room

    def begin(self, size: int, large: LargeRequests) -> None:
        """It is the turn of the large request."""
        self._huge = large if size >= HUGE_BYTES else None

    def release(self, connection: ReceivingConnection) -> None:
        """The request is handled, or given up."""
        if self.held_bytes:
            self.pool.release(self.held_bytes, connection)
            self.held_bytes = 0
        if self._huge is not None:
            huge, self._huge = self._huge, None
            huge.done()

    def move(self, pool: RequestMemory, connection: ReceivingConnection) -> None:
        """From now on the requests of the connection belong to others."""
        self.release(connection)
        self.pool = pool
