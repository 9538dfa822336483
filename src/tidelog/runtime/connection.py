"""One client connection: passes requests to handlers and sends the responses in the order of the requests.

A request is started without waiting for earlier ones of the same connection; only the responses keep their
order. Requests after a pending write do wait for it (:mod:`~tidelog.runtime.write_order`), because a client
must be able to read its own writes. Other nodes of the cluster match responses by correlation id and get them
as soon as they are finished, so that a heartbeat does not wait for a vote.

**Parts.** :class:`~tidelog.runtime.receiver.Receiver` handles incoming bytes,
:class:`~tidelog.runtime.ordered_responses.OrderedResponses` the responses,
:class:`~tidelog.runtime.sender.Sender` outgoing bytes. :mod:`~tidelog.runtime.login_state` knows how long a
login counts, :mod:`~tidelog.runtime.produce_shapes` what Produce requests look like. Reasons to wait are
counted in :mod:`~tidelog.runtime.write_order` (earlier writes), :mod:`~tidelog.runtime.late_rows` (responses
that are worked out late), :mod:`~tidelog.runtime.turn_budget` (its turn, with that of Produce and Fetch in
:mod:`~tidelog.runtime.hot_turns`) and :mod:`~tidelog.runtime.request_memory`. The last request is held back
here meanwhile. TLS is below (:mod:`~tidelog.runtime.tls.layer`), and unknown here but for the choice of the
sender.

**Who asks.** While a client has to log in, its requests go to a
:class:`~tidelog.runtime.authentication.Login`, which says in the end who it is. A client id of a node is a
claim, until :class:`~tidelog.runtime.peers.trust.NodeTrust` confirms it. What a client may do is not asked
here: Produce, Fetch and the guards of the other APIs do that. If clients have quotas,
:mod:`~tidelog.runtime.metering` starts each request, and a connection is not read while its client has to
wait.

**Back-pressure.** No further request is started while there are unsent bytes or too many pending requests, or
while the requests of all connections use too much memory. The kernel's buffers then fill, and the client
waits.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from tidelog.broker.clients.client_kinds import UNKNOWN, kind_of
from tidelog.broker.handlers import api_versions
from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import HangUp, RequestContext
from tidelog.config import Listener
from tidelog.protocol import fetch, follower_fetch, messages, produce
from tidelog.protocol.fetch import Part
from tidelog.protocol.wire import STRUCT_ERROR, Malformed, skip_tags
from tidelog.runtime import handling, metering, sweeping
from tidelog.runtime.addresses import ip_of
from tidelog.runtime.authentication import SASL_APIS, Header, Login, client_id_of
from tidelog.runtime.connection_limits import ConnectionPlace
from tidelog.runtime.large_requests import HUGE_BYTES
from tidelog.runtime.late_rows import LateRows
from tidelog.runtime.login_state import LoginState
from tidelog.runtime.ordered_responses import OrderedResponses
from tidelog.runtime.peers import names
from tidelog.runtime.produce_shapes import ProduceShapes
from tidelog.runtime.receiver import OWN_BUFFER_FROM_BYTES, Receiver
from tidelog.runtime.request_memory import MemoryShare
from tidelog.runtime.slots import LooseSlot, RebalanceSlot, Slot, WriteSlot
from tidelog.runtime.tls.sender import sender_for
from tidelog.runtime.turn_budget import ConnectionTurn
from tidelog.runtime.write_order import (
    CHANGES,
    GROUP_READS,
    NO_WRITE,
    REBALANCES,
    WRITES,
    kind_that_passes,
)
from tidelog.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from tidelog.runtime.peers.gate import Gate
    from tidelog.runtime.server import Server

logger = logging.getLogger(__name__)

UNNAMED = Listener("", "", 0)
HOT = frozenset({produce.API_KEY, fetch.API_KEY})
READY_MAX = 64  # parts of responses; so many are sent before another request is started


# Same as calling the class, but three times faster.
_new_context: Callable[[tuple[object, ...]], RequestContext] = partial(tuple.__new__, RequestContext)


class Connection(OrderedResponses):
    __slots__ = (
        "_late_rows",
        "_login",
        "_muted",
        "_opening",
        "_receiver",
        "_shapes",
        "_transport",
        "_turn",
        "incomplete",
        "incomplete_since_s",
        "ip",
        "kinds",
        "last_active",
        "listener",
        "memory",
        "node",
        "place",
        "principal",
        "waited_until_s",
    )

    def __init__(
        self, server: "Server", listener: Listener = UNNAMED, place: ConnectionPlace | None = None
    ) -> None:
        """``listener``: the one that the connection came in by. ``place``: its share of the limits, which the
        server takes back.
        """
        super().__init__(server)
        self.listener = listener
        self.place = place
        self.incomplete = sweeping.NONE  # for the server's look at slow requests
        self.incomplete_since_s = 0.0
        self.waited_until_s = 0.0
        self.principal = ANONYMOUS
        self._login = LoginState(server.logins, self)
        is_stranger = self._login.login is not None
        self._receiver = Receiver(
            server.logins.bytes_max(self) or server.max_request_bytes, of_stranger=is_stranger
        )
        self.memory = MemoryShare(server.login_memory if is_stranger else server.client_memory)
        self._turn = ConnectionTurn(server.turn, server.hot_turns)
        self._shapes = ProduceShapes()
        self._late_rows = LateRows()
        self._opening = 0  # how often the connection is held, for instance by threads with the last request
        self.node: int | None = None  # the cluster node at the other end
        self._muted: asyncio.TimerHandle | None = None  # until the client may send again
        self.ip = "?"
        self.kinds = UNKNOWN  # of requests that it has sent
        self.last_active = 0.0
        self._transport: asyncio.Transport | None = None

    # --- open and close -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.ip = ip_of(address)
        self.peer = f"{self.ip}:{address[1]}" if address else "?"
        self._sender = sender_for(
            self._transport, self._server.broker.services, self._resume_if_possible, self._broken,
            self._server.reads,
        )  # fmt: skip
        self.last_active = self._server.loop.time()
        refusal = self._server.admit(self)
        if refusal:
            self.close(refusal)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        if self._sender is not None:
            self._sender.close()
        self._transport = None
        if self._muted is not None:
            self._muted.cancel()
        if not self._opening:
            self.memory.release(self)  # Otherwise a thread still uses it, and it is released later.
        for slot in (*self.slots, *self._loose):
            if slot.pending is not None:
                slot.pending.cancel()
        self.slots.clear()
        self._loose.clear()
        self._server.forget(self)
        self._login.close()
        if self.node is not None and self._server.gate is not None:
            self._server.gate.disconnected(self.node)

    def close(self, reason: str, *, quiet: bool = False) -> None:
        """Log the reason and close the connection."""
        if self._transport is not None and not self._closed:
            self._closed = True
            level = logging.INFO if quiet else logging.WARNING
            logger.log(level, "closed connection of %s: %s", self.peer, reason)
            self._transport.abort()

    def _broken(self, reason: str) -> None:
        self.close(f"it broke while sending: {reason}", quiet=True)

    def end(self) -> None:
        """Close after the transport's data is sent."""
        if self._transport is not None:
            self._transport.close()

    @property
    def in_the_middle(self) -> bool:
        """Whether a request has begun and is incomplete."""
        return self._receiver.in_the_middle

    @property
    def waits(self) -> bool:
        """Whether the broker takes no bytes from it at the moment."""
        return self._stopped_reading

    def is_quiet(self) -> None:
        """No bytes have come for a while."""
        self._receiver.drop_spare()

    @property
    def request_number(self) -> int:
        return self._receiver.number

    @property
    def announced_bytes(self) -> int:
        return self._receiver.announced_bytes

    # --- requests in ----------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer, memory = self._receiver.buffer(), self.memory
        return buffer[: memory.pool.readable_bytes(len(buffer))] if memory.held_bytes else buffer

    def buffer_updated(self, count: int) -> None:
        self.last_active = self._server.loop.time()
        if self._receiver.received(count):
            self._take_requests()
        elif not self.memory.hold(count, self):
            self._stop_reading()

    def eof_received(self) -> bool:
        """A half-closed connection still gets its pending responses. Fetches do not wait for records, because
        the client has probably ended. A node never half-closes a connection: its process has ended, and a
        pending response, for instance to its fetch, must not keep the connection open.
        """
        self._ended = True
        if self.node is not None:
            return False
        self.finish_pending()
        return not self.idle

    def _take_requests(self) -> None:
        """Start every complete request and send finished responses; repeat while that makes room."""
        while True:
            self._take_while_allowed()
            self._flush_responses()
            if not self._stopped_reading or self._must_wait() or self._transport is None or self._closed:
                return
            self._stopped_reading = False
            self._transport.resume_reading()

    def _take_while_allowed(self) -> None:
        receiver, turn = self._receiver, self._turn
        turn.plain_until_s = turn.hot_until_s = 0.0
        self._busy = True
        gathering = self._server.gathering if self.node is not None else None
        if gathering is not None:
            gathering.begin()
        try:
            while not self._closed:
                if self._must_wait():
                    self._stop_reading()
                    break
                request = receiver.next() if self._held_back is None else self._take_held_back()
                if request is not None:
                    if self._server.metered:
                        metering.dispatch(self, request)
                    else:
                        self.dispatch(request)
                elif not receiver.needed_bytes:
                    break
                else:
                    self.memory.hold(receiver.begin_large(), self)
        except HangUp as error:
            self.close(error.message)
        finally:
            self._busy = False
            if gathering is not None:
                gathering.end()

    def _must_wait(self) -> bool:
        if self.memory.is_short or len(self.slots) + len(self._loose) >= self._server.max_unanswered:
            return True
        if self._order.awaited or self._opening or self._muted is not None or len(self._ready) >= READY_MAX:
            return True
        return self._sender is not None and self._sender.blocked

    def memory_freed(self) -> None:
        """Other connections have released memory."""
        self._resume_if_possible()

    def _stop_reading(self) -> None:
        if not self._stopped_reading and self._transport is not None:
            self._stopped_reading = True
            self._transport.pause_reading()

    def _resume_if_possible(self) -> None:
        """Continue, unless there is still a reason to wait."""
        if self._transport is None or self._closed or self._must_wait():
            return
        if self._stopped_reading:
            self._stopped_reading = False
            self._transport.resume_reading()
            self._take_requests()
        else:
            self._flush_responses()

    # --- handling -------------------------------------------------------------------------------------------

    def dispatch(self, request: memoryview) -> Slot | None:
        """Handle a request. Returns its place among the responses; None if it is held back or has none."""
        slot = None
        try:
            slot = self._handle(request)
        except (Malformed, HangUp) as error:
            self.close(error.message)
        except (STRUCT_ERROR, IndexError):
            self.close("a request header that ends too early")
        except Exception:
            logger.exception("a request of %s failed", self.peer)
            self.close("a request failed with an internal error")
        if len(request) >= OWN_BUFFER_FROM_BYTES and request is not self._held_back and not self._opening:
            self.memory.release(self)
            if slot is not None and slot.parts is not None:
                self._receiver.give_back(request)
        return slot

    def _handle(self, request: memoryview) -> Slot | None:
        api_key, version, correlation_id, client_size = handling.HEADER.unpack_from(request, 0)
        login = self._login.login
        if login is not None and not login.passes(api_key):
            return self._log_in(login, request, (api_key, version, correlation_id), client_size)
        order = self._order
        passing = order.kind
        if (
            passing != api_key
            and passing != NO_WRITE
            and order.must_follow_writes(self.slots if self.node is None else ())
        ):
            self._held_back = request
            return None
        if api_key in HOT and self.node is None:
            now, turn = monotonic(), self._turn
            if now >= turn.hot_until_s and turn.must_await_slice(now):
                self._held_back = request
                self.hold()
                turn.wait_for_slice(self._take_slice)
                return None
        shapes = self._shapes
        shape = shapes.last
        if shape is not None and api_key == produce.API_KEY and version == shape.version:
            records = shape.records_of(request)
            if records is None:
                other = shapes.other(request, shape)
                if other is not None:
                    shape, records = other, other.records_of(request)
            if records is not None:
                return self._handle_repeated(shape, records, correlation_id)
        return self._handle_any(request, (api_key, version, correlation_id), client_size)

    def _handle_any(self, request: memoryview, header: tuple[int, int, int], client_size: int) -> Slot | None:
        """A request that is not like the last one: it may have to wait, or its API be refused."""
        api_key, version, _ = header
        server = self._server
        api = SERVED.get(api_key)
        known = api is not None and api.oldest <= version <= api.newest
        if not known and (server.gate is None or not server.gate.serves(api_key, version)):
            self._refuse(*header)
            return None
        if api_key in SASL_APIS and self._login.begin_again(self, client_id_of(request, client_size)):
            return self._handle(request)
        if not messages.is_loaded(api_key, version) and known and self._load(api_key, version):
            self._held_back = request
            return None
        if api_key in CHANGES and self.node is None and self._late_rows.must_precede_change():
            self._held_back = request
            self.hold()
            return None
        if api_key in GROUP_READS and self.node is None and self._order.must_follow_rebalances(self.slots):
            self._held_back = request
            return None
        if api_key not in HOT and self.node is None and self._turn.must_be_awaited(len(request)):
            self._held_back = request
            self.hold()
            server.large.wait(len(request), partial(self._take_large, len(request)))
            return None
        return self._admit(request, header, client_size, known=known)

    def _admit(
        self, request: memoryview, header: tuple[int, int, int], client_size: int, *, known: bool
    ) -> Slot | None:
        """Start it, if this client may be served. ``known``: clients may send its API in this version."""
        api_key, version, correlation_id = header
        position = 10
        server = self._server
        gate = server.gate
        client_id = None
        if client_size >= 0:
            client_id = str(request[10 : 10 + client_size], "utf-8", "replace")
            position += client_size
        if messages.is_flexible(api_key, version):
            position = skip_tags(request, position)
        self.kinds |= kind_of(api_key)
        by_node = gate is not None and self._is_node(gate, client_id)
        context = RequestContext(
            api_key, version, correlation_id, client_id, self.peer, self.kinds, None,
            self.principal, self.listener.name, by_node,
        )  # fmt: skip
        server.requests += 1
        if not by_node and not server.ready:
            # Still starting. Treated like a refused connection, without a log line: clients try the next
            # broker, or this one again.
            self.end()
            return None
        if not by_node and gate is not None and gate.trust.refuses(request, context):
            self._finish(slot := self._take_slot(False, api_key), gate.trust.refusal(context))
            return slot
        if not by_node and self.place is not None and self.place.refusal:
            self.close(self.place.refusal)
            return None
        if server.metered and not by_node:
            meter = server.metering.meter_of(self.meter, self.principal, client_id)
            if meter is not self.meter:
                # Another client id. A request with the last one must not count as this client's.
                self.forget_client()
                self.meter = meter
        return self._start(request, position, context, known=known)

    def _start(self, request: memoryview, position: int, context: RequestContext, *, known: bool) -> Slot:
        """Give it a place among the responses, and pass it to what handles its API."""
        server = self._server
        gate = server.gate
        api_key, version, by_node = context.api_key, context.version, context.by_node
        slot = self._take_slot(by_node, api_key, len(request) >= HUGE_BYTES)
        if api_key == produce.API_KEY:
            self._shapes.learn(
                server.produce.handle(
                    request, position, context, lambda response: self._finish(slot, response), self
                )
            )
        elif api_key == fetch.API_KEY:
            by_follower = gate is not None and follower_fetch.is_ask(request, version)

            def send(parts: Sequence[Part | bytes]) -> None:
                self._finish_parts(slot, parts)

            if gate is not None and by_follower:
                slot.times = server.times.follower_fetches
                self._wait(slot, gate.fetch(request, position, context, send))
            else:
                most = None if self.meter is None else self.meter.use.fetch_bytes_max
                self._wait(slot, server.fetch.handle(request, position, context, send, self.close, most))
        elif gate is not None and gate.wants(api_key, version, known=known, by_node=by_node):
            # Another node's request for the controller is not forwarded, because the node itself chooses the
            # next controller to ask.
            take_plain = gate.take if by_node or not known else gate.relay

            def send_plain(parts: Sequence[Part | bytes]) -> None:
                self._finish_parts(slot, parts)

            self._wait(slot, take_plain(request, position, context, send_plain, self))
        else:
            handling.handle_plain(
                server.broker,
                request,
                position,
                context,
                lambda frame: self._finish(slot, frame),
                self.close,
                server.encode,
                self,
            )
        return slot

    def _handle_repeated(self, shape: produce.Shape, records: memoryview, correlation_id: int) -> Slot:
        """Handle a Produce request with the shape of an earlier one."""
        slot = WriteSlot(self.last_active, self._server.times.of(produce.API_KEY))
        self.slots.append(slot)
        self._order.kind = produce.API_KEY
        self._server.requests += 1
        context = _new_context(
            (
                produce.API_KEY, shape.version, correlation_id, None, self.peer, 0, None,
                self.principal, self.listener.name, False,
            )
        )  # fmt: skip
        self._server.produce.handle_repeated(
            shape, records, context, lambda response: self._finish(slot, response), self
        )
        return slot

    def forget_client(self) -> None:
        """Its quotas have changed: the next request is looked at as if it were the first."""
        self.meter = None
        self._shapes.forget()

    def mute(self, wait_ms: int) -> None:
        """Take no requests for a while. What is left of an earlier wait is not added."""
        if self._closed:
            return
        loop = self._server.loop
        until = loop.time() + wait_ms / 1000
        if self._muted is not None:
            until = max(until, self._muted.when())
            self._muted.cancel()
        self._muted = loop.call_at(until, self._unmute)
        self._stop_reading()

    def _unmute(self) -> None:
        self._muted = None
        self._resume_if_possible()

    def hold(self) -> None:
        """Start no further request until ``resume``: the last one takes long, and keeps its memory."""
        self._opening += 1

    def resume(self) -> None:
        self._opening -= 1
        if not self._opening:
            if self._held_back is None or self._closed:
                self.memory.release(self)
            self._resume_if_possible()

    def await_rows(self, count: int) -> None:
        if self._late_rows.add(count):
            self.hold()

    def rows_made(self, count: int) -> None:
        for _ in range(self._late_rows.made(count)):
            self.resume()

    def _load(self, api_key: int, version: int) -> bool:
        """Load the schema of this version in a thread. Returns False if that is not possible. Meanwhile no
        further request is started, so that the order is kept.
        """
        compute = self._server.compute
        if compute is None or self.node is not None:
            return False
        self.hold()
        compute(lambda: messages.load(api_key, version), lambda _: self.resume())
        return True

    def _take_slice(self) -> None:
        """It is the turn of the Produce or Fetch that is held back, and of those after it."""
        self._turn.has_come()
        self.resume()

    def _take_large(self, size: int) -> None:
        """It is the turn of the request that is held back. It does not wait for anything else, because others
        may wait for it.
        """
        self._opening -= 1
        self.memory.begin(size, self._server.large)
        request = self._take_held_back()
        if request is None or self._closed:
            self.memory.release(self)
            return
        self._turn.has_come()
        self._busy = True
        try:
            if self._server.metered:
                metering.dispatch(self, request)
            else:
                self.dispatch(request)
        finally:
            self._busy = False
        self._flush_responses()
        self._resume_if_possible()

    def _take_slot(self, loose: bool, api_key: int, huge: bool = False) -> Slot:
        slot: Slot
        begun_s, times = self.last_active, self._server.times.of(api_key)
        if loose:
            slot = LooseSlot(begun_s, times)
            self._loose[slot] = None
            return slot
        if api_key in WRITES or (huge and self._is_forwarded(api_key)):
            slot = WriteSlot(begun_s, times)
            self._order.kind = kind_that_passes(api_key)
        elif api_key in REBALANCES:
            slot = RebalanceSlot(begun_s, times)
        else:
            slot = Slot(begun_s, times)
        self.slots.append(slot)
        return slot

    def _is_forwarded(self, api_key: int) -> bool:
        """Huge ones do not keep their order on the way, so later requests wait for the response."""
        return self._server.gate is not None and self._server.gate.relays(api_key)

    def _take_held_back(self) -> memoryview | None:
        request, self._held_back = self._held_back, None
        return request

    def _is_node(self, gate: "Gate", client_id: str | None) -> bool:
        """Whether the client is another node of the cluster. Its connection may be idle for any time."""
        parties = names.parties(client_id)
        if parties is None:
            return False
        if self.node not in (None, parties[0]):
            raise HangUp(f"node {self.node} says that it is node {parties[0]}")
        if self.node is None:
            if not gate.trust.admits(self.principal, self.listener.name, parties[0]):
                return False
            self._become_node(*parties)
        return True

    def _become_node(self, node: int, to: int) -> None:
        self._take_place_of_node()
        if self._server.gate is not None:
            self._server.gate.connected(node, to)
        self.node = node
        self.memory.move(self._server.node_memory, self)  # Cluster traffic does not wait for clients.
        self._receiver.expect_no_records()
        if self._sender is not None:
            self._sender.keep_alive()

    def _take_place_of_node(self) -> None:
        self._server.is_of_node(self)
        refusal = self._server.limits.becomes_node(self.place) if self.place is not None else ""
        if refusal:
            raise HangUp(refusal)

    # --- authentication -------------------------------------------------------------------------------------

    def _log_in(
        self, login: Login, request: memoryview, header: tuple[int, int, int], client_size: int
    ) -> Slot | None:
        """A request that the login does not let pass."""
        api_key, version, _ = header
        api = SERVED.get(api_key)
        if api is None or not api.oldest <= version <= api.newest:
            self._refuse(*header)
            return None
        if not self._server.ready and names.parties(client_id_of(request, client_size)) is None:
            self.end()
            return None
        slot = self._take_slot(False, api_key)
        login.take(request, Header(*header), client_size, lambda response: self._finish(slot, response))
        return slot

    def accept_node(self, node: int, to: int) -> None:
        self._receiver.allow(self._server.max_request_bytes)
        self._become_node(node, to)
        if self._server.gate is not None:
            self.principal = self._server.gate.trust.principal_of(node)

    def accept_client(self, principal: Principal) -> None:
        self._receiver.allow(self._server.max_request_bytes)
        self.memory.move(self._server.client_memory, self)
        self.principal = principal

    def logged_in(self, session_ms: int) -> None:
        self._login.succeeded(self, session_ms)

    def login_failed(self, reason: str) -> None:
        logger.warning("closing the connection of %s: %s", self.peer, reason)

    def _refuse(self, api_key: int, version: int, correlation_id: int) -> None:
        if api_key == messages.API_VERSIONS_KEY:
            self._finish(self._take_slot(False, api_key), api_versions.downgrade(correlation_id))
            return
        # As in Kafka: the format of a response in an unknown version is unknown.
        self.close(f"UNSUPPORTED_VERSION: {messages.name_of(api_key)} (api key {api_key}) version {version}")
