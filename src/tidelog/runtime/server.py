"""The listening side of a broker: accepts connections, enforces their limits, and stops gracefully."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.fetch import FetchHandler
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.config import BrokerConfig, Listener
from tidelog.runtime import sweeping
from tidelog.runtime.acceptor import Acceptor
from tidelog.runtime.client_logins import ClientLogins
from tidelog.runtime.connection import UNNAMED, Connection
from tidelog.runtime.connection_limits import ConnectionLimits, ConnectionPlace
from tidelog.runtime.descriptors import NO_LIMIT
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.handling import Compute as EncodeElsewhere
from tidelog.runtime.hot_turns import HotTurns
from tidelog.runtime.large_requests import LargeRequests
from tidelog.runtime.logins import Logins
from tidelog.runtime.metering import Metering
from tidelog.runtime.peers.gate import Gate
from tidelog.runtime.request_memory import LOGIN_BYTES_MAX, RequestMemory
from tidelog.runtime.services import LoopServices, give_way
from tidelog.runtime.tls.listening import TlsListener
from tidelog.runtime.traffic import Reads, RequestTimes
from tidelog.runtime.turn_budget import TurnBudget

logger = logging.getLogger(__name__)


class Server:
    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        gate: Gate | None = None,
        services: LoopServices | None = None,
        room: int = NO_LIMIT,
        clients: Mapping[str, ClientLogins] | None = None,
    ) -> None:
        """``services`` has the threads for long computations. ``room``: for how many connections the process
        has descriptors. ``clients``: what they log in to, by the name of their listener.
        """
        self.broker = broker
        self.gate = gate  # for requests of other nodes; None if there are none
        self.loop = loop
        compute = services.compute if services is not None else None
        self.produce = ProduceHandler(broker, compute, give_way)
        self.encode: EncodeElsewhere | None = compute
        self.compute: Callable[[Callable[[], object], Callable[[object], None]], None] | None = compute
        self.fetch = FetchHandler(broker)
        self.large = LargeRequests(broker.services)
        self.turn = TurnBudget(loop)
        self.hot_turns = HotTurns(loop)
        self.connections: set[Connection] = set()
        self.requests = 0  # number of requests since the process started
        self.limits = ConnectionLimits(broker.config, room)
        self.times = RequestTimes()
        self.gathering = Gathering(loop.call_soon)
        self.reads = Reads()
        self.metering = Metering(broker.quotas, broker.services.uptime_ms)
        self.metered = False  # whether clients have quotas
        self.client_memory = RequestMemory(broker, loop)
        self.node_memory = RequestMemory(broker, loop)
        self.login_memory = RequestMemory(broker, loop, LOGIN_BYTES_MAX)
        # Connections at listeners for nodes that have not shown that they are a node's, oldest first.
        self._strangers: dict[Connection, None] = {}
        self._listeners: list[Acceptor] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._stopping = False
        check = services.compute_login if services is not None else None
        self.logins = Logins(loop, broker.config, None if gate is None else gate.trust, check, clients)
        self.ready = False  # Whether clients are served; other nodes are served from the start.
        self.configure(broker.config)

    def serve_clients(self) -> None:
        """The broker is unfenced: from now on it can respond to clients correctly."""
        self.ready = True

    def quotas_changed(self) -> None:
        self.metered = self.broker.quotas.limits_clients
        for connection in self.connections:
            connection.forget_client()

    def configure(self, config: BrokerConfig) -> None:
        """Copy limits that are read with every request to plain attributes."""
        self.limits.config = config
        self.max_request_bytes = config.socket_request_max_bytes
        self.max_unanswered = config.queued_max_requests_per_connection

    async def listen(
        self, bound: socket.socket, listener: Listener = UNNAMED, tls: TlsListener | None = None
    ) -> None:
        """Serve on a bound socket. ``tls``: of a listener with TLS."""
        config = self.broker.config

        def make(place: ConnectionPlace) -> asyncio.BaseProtocol:
            connection = Connection(self, listener, place)
            return connection if tls is None else tls.layer_for(connection)

        acceptor = Acceptor(
            self.loop, bound, self.limits, make,
            config.connections_max_idle_ms, self._delay_ms_of(listener),
            for_nodes=self._is_for_nodes(listener),
        )  # fmt: skip
        acceptor.start(config.socket_listen_backlog_size)
        self._listeners.append(acceptor)
        if self._sweeper is None:
            self._sweep()

    def _delay_ms_of(self, listener: Listener) -> Callable[[str], int]:
        """How long a new connection of an address has to wait."""
        broker = self.broker
        if self._is_for_nodes(listener):
            return lambda ip: 0
        return lambda ip: broker.quotas.connected(ip, broker.services.uptime_ms())

    def _is_for_nodes(self, listener: Listener) -> bool:
        """Whether the operator gave other nodes a listener of their own. Limits for clients do not count."""
        config = self.broker.config
        return len(config.listeners) > 1 and listener.name in config.peer_listener_names

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
        """A new connection; returns the reason if it is refused."""
        self.connections.add(connection)
        if connection.place is not None and connection.place.node:
            self._admit_stranger(connection)
        return "the broker is stopping" if self._stopping else None

    def _admit_stranger(self, connection: Connection) -> None:
        """At a listener for nodes. They show who they are at once, so of too many that have not, the one that
        has waited longest is closed. Otherwise silent connections would take all places, and descriptors.
        """
        self._strangers[connection] = None
        if len(self._strangers) > self.limits.strangers_max:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.close("others at this listener wait, and it has not shown that it is a node's", quiet=True)

    def is_of_node(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._strangers.pop(connection, None)
        if connection.place is not None:
            self.limits.release(connection.place)

    def _sweep(self) -> None:
        """Close connections that take too long (:mod:`~tidelog.runtime.sweeping`)."""
        config, now = self.broker.config, self.loop.time()
        for connection in list(self.connections):
            reason = sweeping.why_close(connection, config, now)
            if reason is not None:
                connection.close(reason[0], quiet=reason[1])
            elif now - connection.last_active > sweeping.STALLED_S:
                connection.is_quiet()
        self._sweeper = self.loop.call_later(sweeping.interval_s(config), self._sweep)
