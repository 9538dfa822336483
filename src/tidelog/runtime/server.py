"""The listening side of a broker: accepts connections, enforces their limits, and stops gracefully."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.fetch import FetchHandler
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.config import BrokerConfig, Listener
from tidelog.runtime.authentication import Pace
from tidelog.runtime.connection import UNNAMED, Connection
from tidelog.runtime.handling import Compute as EncodeElsewhere
from tidelog.runtime.large_requests import LargeRequests
from tidelog.runtime.peers.gate import Gate
from tidelog.runtime.services import LoopServices, give_way
from tidelog.runtime.traffic import Reads, RequestTimes

logger = logging.getLogger(__name__)

IDLE_CHECKS = 4  # per idle timeout
SCARCE_S = 15.0  # for a large request to be complete while others wait for memory
LOGIN_WITHIN_MS = 10_000
FAILURE_PAUSE_MS = 100
STALLED_REQUEST_S = 30.0  # timeout for the next bytes of an incomplete request


class RequestMemory:
    """Counts the bytes of large requests. Those of other nodes have a limit of their own: they do not wait
    for clients, but any client can say that it is a node.
    """

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self._used = 0
        # Connections that receive a large request, oldest first, and when they began.
        self._receiving: dict[Connection, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, count: int, connection: Connection) -> bool:
        """Bytes of a large request have arrived. Returns whether its connection may continue to receive.

        Only received bytes count, not announced ones. Above the limit, only the oldest request continues. So
        one request can always be completed and release its memory.
        """
        self._used += count
        self._receiving.setdefault(connection, self._loop.time())
        limit = self._broker.config.queued_max_request_bytes
        if limit < 0 or self._used <= limit or next(iter(self._receiving)) is connection:
            return True
        if self._timer is None:
            self._timer = self._loop.call_later(SCARCE_S, self._make_room)
        return False

    def release(self, count: int, connection: Connection) -> None:
        self._used -= count
        self._receiving.pop(connection, None)
        for other in list(self._receiving):
            self._loop.call_soon(other.memory_freed)

    def _make_room(self) -> None:
        """Others have waited for a while: close the oldest requests that are still incomplete. Otherwise
        three clients that send the end of their requests byte by byte could stop the writes of all others.
        """
        self._timer = None
        limit = self._broker.config.queued_max_request_bytes
        began_before = self._loop.time() - SCARCE_S
        left = self._used
        for connection, began in list(self._receiving.items()):
            if left <= limit // 2 or began > began_before:
                break
            if connection.in_the_middle and not connection.short_of_memory:
                left -= connection.held_bytes
                connection.close(f"an incomplete request held memory for {SCARCE_S:.0f} s, others wait")
        if left > limit >= 0:
            self._timer = self._loop.call_later(SCARCE_S, self._make_room)


class Server:
    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        gate: Gate | None = None,
        services: LoopServices | None = None,
    ) -> None:
        """``services`` has the threads for long computations."""
        self.broker = broker
        self.gate = gate  # for requests of other nodes; None if there are none
        self.loop = loop
        compute = services.compute if services is not None else None
        self.produce = ProduceHandler(broker, compute, give_way)
        self.encode: EncodeElsewhere | None = compute
        self.compute: Callable[[Callable[[], object], Callable[[object], None]], None] | None = compute
        self.fetch = FetchHandler(broker)
        self.large = LargeRequests(broker.services)
        self.connections: set[Connection] = set()
        self.requests = 0  # number of requests since the process started
        self.times = RequestTimes()
        self.reads = Reads()
        self._per_ip: Counter[str] = Counter()
        self.client_memory = RequestMemory(broker, loop)
        self.node_memory = RequestMemory(broker, loop)
        self._listeners: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._stopping = False
        self.login_pace = Pace(loop, LOGIN_WITHIN_MS, FAILURE_PAUSE_MS)
        self.ready = False  # Whether clients are served; other nodes are served from the start.
        self.configure(broker.config)

    def serve_clients(self) -> None:
        """The broker is unfenced: from now on it can respond to clients correctly."""
        self.ready = True

    def configure(self, config: BrokerConfig) -> None:
        """Copy limits that are read with every request to plain attributes."""
        self.max_request_bytes = config.socket_request_max_bytes
        self.max_unanswered = config.queued_max_requests_per_connection

    async def listen(self, bound: socket.socket, listener: Listener = UNNAMED) -> None:
        """Serve on a bound socket."""
        server = await self.loop.create_server(
            lambda: Connection(self, listener),
            sock=bound,
            backlog=self.broker.config.socket_listen_backlog_size,
        )
        self._listeners.append(server)
        if self._sweeper is None:
            self._sweep()

    async def stop(self, grace_s: float) -> None:
        """Accept no new connections, wait for pending requests for up to ``grace_s``, then close."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        deadline = self.loop.time() + grace_s
        for connection in list(self.connections):
            connection.finish_pending()
        # Other nodes never stop sending requests, so they are not waited for.
        clients = [connection for connection in self.connections if connection.node is None]
        while self.loop.time() < deadline and not all(connection.idle for connection in clients):
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.end()
        while self.connections and self.loop.time() < deadline + 1:
            await asyncio.sleep(0)

    # --- limits ---------------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection; returns the reason if it is refused."""
        self.connections.add(connection)
        self._per_ip[connection.ip] += 1
        config = self.broker.config
        if self._stopping:
            return "the broker is stopping"
        if len(self.connections) > config.max_connections:
            return f"max.connections ({config.max_connections}) is reached"
        if self._per_ip[connection.ip] > config.max_connections_per_ip:
            return f"max.connections.per.ip ({config.max_connections_per_ip}) is reached for {connection.ip}"
        return None

    def forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self._per_ip[connection.ip] -= 1
            if not self._per_ip[connection.ip]:
                del self._per_ip[connection.ip]

    def _sweep(self) -> None:
        """Close connections that have been idle for too long. Those with an incomplete request are closed
        much sooner, because they use memory for which others may wait.
        """
        idle_s = self.broker.config.connections_max_idle_ms / 1000
        now = self.loop.time()
        for connection in list(self.connections):
            silent_s = now - connection.last_active
            if connection.in_the_middle and connection.idle and silent_s > STALLED_REQUEST_S:
                connection.close(f"an incomplete request got no bytes for {STALLED_REQUEST_S:.0f} s")
            elif 0 < idle_s < silent_s and connection.idle and connection.node is None:
                connection.close(
                    f"idle for more than connections.max.idle.ms ({idle_s * 1000:.0f})", quiet=True
                )
        interval = min(STALLED_REQUEST_S, max(idle_s, 0.2) if idle_s > 0 else STALLED_REQUEST_S) / IDLE_CHECKS
        self._sweeper = self.loop.call_later(interval, self._sweep)
