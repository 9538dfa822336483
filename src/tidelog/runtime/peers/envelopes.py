"""Handles clients' requests that other brokers forward in envelopes, at the active controller.

A node that is not the active controller refuses an envelope and does not forward it. Otherwise two brokers
that believe each other to be the controller would forward it in a loop.

**Huge requests.** They are decoded in a thread, a few at a time, as those of clients are. The connection of a
node has requests of many clients, which do not wait for each other: the order of one client's requests is
kept by the broker that forwards them. Only while too many bytes wait is the connection held.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.links.to_controller import RELAYED
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, messages
from tidelog.protocol.fetch import Part
from tidelog.protocol.wire import Malformed
from tidelog.runtime import handling
from tidelog.runtime.large_requests import HUGE_BYTES, LargeRequests
from tidelog.runtime.pending import PendingRequest
from tidelog.security.principal import ANONYMOUS, Principal

Reply = Callable[[Sequence[Part | bytes]], None]
Respond = Callable[[ErrorCode, memoryview | None], None]

PENDING_BYTES_MAX = 32 * 1024 * 1024  # of huge requests; a node that sends more has its connection held


class Envelopes:
    def __init__(
        self, broker: Broker, active: Callable[[], bool], compute: handling.Compute | None = None
    ) -> None:
        self.broker = broker
        self.active = active  # whether this node is the active controller
        self.compute = compute
        self.large = LargeRequests(broker.services)  # apart from those of this broker's own clients
        self.pending_bytes = 0  # of huge requests that are not decoded

    def open(
        self,
        request: memoryview,
        position: int,
        context: RequestContext,
        reply: Reply,
        connection: handling.HoldableConnection,
    ) -> PendingRequest | None:
        def respond(error: ErrorCode, data: memoryview | None = None) -> None:
            offset = self.broker.store.committed_offset
            reply((envelope.encode_response(context.correlation_id, error, data, offset),))

        outer = envelope.decode_request(request, position)
        inner = outer.data
        if not self.active():
            respond(ErrorCode.NOT_CONTROLLER)
            return None
        try:
            inner_context, start = handling.read_header(inner, outer.host or context.peer)
            # Who asked, as the broker knows that the client is connected to.
            who = ANONYMOUS if outer.principal is None else Principal(*outer.principal)
            inner_context = inner_context._replace(principal=who)
            if inner_context.api_key not in RELAYED:
                raise Malformed("not a request for the controller")
            if self.compute is not None and len(inner) >= HUGE_BYTES:
                return HugeEnvelope(self, self.compute, inner, start, inner_context, respond, connection)
            decoded = messages.decode(inner_context.api_key, inner_context.version, inner, start)
        except Malformed:
            respond(ErrorCode.INVALID_REQUEST)
        else:
            self.handle(decoded, inner_context, respond)
        return None

    def handle(self, decoded: Any, context: RequestContext, respond: Respond) -> None:
        handling.handle_decoded(
            self.broker,
            decoded,
            context,
            lambda frame: respond(ErrorCode.NONE, memoryview(frame)[4:]),
            lambda reason: respond(ErrorCode.UNKNOWN_SERVER_ERROR, None),
            self.compute,
            moved=lambda: respond(ErrorCode.NOT_CONTROLLER, None),
        )


class HugeEnvelope:
    """Waits for its turn, and is then decoded in a thread."""

    def __init__(
        self,
        envelopes: Envelopes,
        compute: handling.Compute,
        inner: memoryview,
        start: int,
        context: RequestContext,
        respond: Respond,
        connection: handling.HoldableConnection,
    ) -> None:
        self._envelopes = envelopes
        self._compute = compute
        self._inner = inner
        self._start = start
        self._context = context
        self._respond = respond
        self._has_begun = False
        self._cancelled = False
        envelopes.pending_bytes += len(inner)
        self._held = connection if envelopes.pending_bytes > PENDING_BYTES_MAX else None
        if self._held is not None:
            self._held.hold()
        envelopes.large.wait(len(inner), self._begin)

    def _begin(self) -> None:
        if self._cancelled:
            self._done()
            return
        self._has_begun = True
        self._compute(self._decode, self._decoded)

    def _decode(self) -> Any:
        return messages.decode(self._context.api_key, self._context.version, self._inner, self._start)

    def _decoded(self, decoded: Any) -> None:
        try:
            self._handle(decoded)
        finally:
            self._done()

    def _handle(self, decoded: Any) -> None:
        if isinstance(decoded, Malformed):
            self._respond(ErrorCode.INVALID_REQUEST, None)
        elif isinstance(decoded, BaseException):
            handling.why_not_decoded(self._context, decoded)
            self._respond(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        elif not self._envelopes.active():
            self._respond(ErrorCode.NOT_CONTROLLER, None)  # It was when the envelope arrived.
        else:
            self._envelopes.handle(decoded, self._context, self._respond)

    def _done(self) -> None:
        self._envelopes.pending_bytes -= len(self._inner)
        self._envelopes.large.done()
        if self._held is not None:
            self._held.resume()

    def finish_now(self) -> None:
        """This node stops. A request that has not begun is for the next controller."""
        if not self._has_begun and not self._cancelled:
            self._cancelled = True
            self._respond(ErrorCode.NOT_CONTROLLER, None)

    def cancel(self) -> None:
        """The connection is lost, and the other broker sends the request again."""
        self._cancelled = True
