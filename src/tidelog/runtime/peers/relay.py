"""Forwards clients' requests to the active controller in envelopes.

A broker that is not the active controller forwards such a request unchanged. It retries until the client's
timeout if the controller has changed or the connection broke. The active controller handles its own clients'
requests, and forwards one when it is replaced before the decision is committed. As in Kafka, a request may
therefore be executed twice: then the second answer counts, which may be that the topic exists. A client that
has created a topic must find it on the same broker. So the response waits until that broker's metadata is as
new as the controller's.
A request for the levels of loggers is not forwarded: they belong to the broker that is asked.
:mod:`~tidelog.runtime.peers.envelopes` is the controller's side.

**Huge requests** are decoded in a thread, and their connection accepts no request meanwhile. Its later
requests wait for the response, because the controller may handle the requests of one broker in another order.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tidelog.broker.broker import Broker
from tidelog.broker.links.to_controller import RELAYED, RETRY_MS, timeout_ms_of, when_known
from tidelog.broker.requests import loggers
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, messages
from tidelog.protocol.wire import INT32
from tidelog.runtime import handling
from tidelog.runtime.large_requests import HUGE_BYTES
from tidelog.runtime.peers import names
from tidelog.runtime.peers.envelopes import Envelopes
from tidelog.runtime.peers.peers import REQUESTS, WirePeers
from tidelog.services import Timer

INCREMENTAL_ALTER_CONFIGS = 44

Finish = Callable[[bytes], None]


class ClientConnection(handling.HoldableConnection, Protocol):
    def close(self, reason: str) -> None: ...


class Relay:
    def __init__(
        self,
        broker: Broker,
        peers: WirePeers,
        controller: Callable[[], int],
        active: Callable[[], bool],
        compute: handling.Compute | None = None,
    ) -> None:
        self.broker = broker
        self.peers = peers
        self.controller = controller  # the known active controller; -1 if unknown
        self.active = active  # whether this node is the active controller
        self.compute = compute
        self.open = Envelopes(broker, active, compute).open

    def wants(self, api_key: int) -> bool:
        return api_key in RELAYED

    def serves(self, api_key: int, version: int) -> bool:
        return (api_key, version) == (envelope.API_KEY, envelope.VERSION)

    def pass_on(
        self,
        request: memoryview,
        position: int,
        context: RequestContext,
        finish: Finish,
        connection: ClientConnection,
    ) -> "Relayed":
        relayed = Relayed(self, request, position, context, finish, connection)
        relayed.start()
        return relayed


class Relayed:
    """One forwarded request until its response."""

    def __init__(
        self,
        relay: Relay,
        request: memoryview,
        position: int,
        context: RequestContext,
        finish: Finish,
        connection: ClientConnection,
    ) -> None:
        self._relay = relay
        self._services = relay.broker.services
        self._request = request
        self._position = position
        self._context = context
        self._finish = finish
        self._connection = connection
        self._decoded: Any = None
        self._done = False
        self._must_finish = False  # as soon as it is decoded, or no longer handled here
        self._retry: Timer | None = None
        self._deadline: Timer | None = None
        self._deadline_ms = 0
        self._is_handled_here = False

    def start(self) -> None:
        """Decode it, so that an invalid request is not forwarded."""
        compute = self._relay.compute
        if compute is None or len(self._request) < HUGE_BYTES:
            self._begin(self._decode())
        else:
            self._connection.hold()
            compute(self._decode, self._decoded_elsewhere)

    def _decode(self) -> Any:
        return messages.decode(self._context.api_key, self._context.version, self._request, self._position)

    def _decoded_elsewhere(self, decoded: Any) -> None:
        if isinstance(decoded, BaseException):
            self._connection.close(handling.why_not_decoded(self._context, decoded))
        elif not self._done:
            self._begin(decoded)
        self._connection.resume()

    def _begin(self, decoded: Any) -> None:
        self._decoded = decoded
        self._deadline_ms = self._services.uptime_ms() + timeout_ms_of(decoded)
        self._set_deadline()
        if self._must_finish:
            self.finish_now()
        else:
            self.attempt()

    def _set_deadline(self) -> None:
        left_ms = max(self._deadline_ms - self._services.uptime_ms(), 0)
        self._deadline = self._services.later(left_ms, self.finish_now)

    def attempt(self) -> None:
        self._retry = None
        relay = self._relay
        if relay.active() or self._is_for_this_process():
            self._stop_timers()
            self._is_handled_here = True
            handling.handle_decoded(
                relay.broker,
                self._decoded,
                self._context,
                self._respond,
                self._give_up,
                relay.compute,
                self._connection,
                self._moved,
            )
            return
        controller = relay.controller()
        if controller in (-1, relay.broker.broker_id):
            self._again()
            return
        channel = relay.peers.channel(controller, REQUESTS)
        correlation_id = channel.next_correlation_id()
        context = self._context
        client_id = names.client_id(relay.broker.broker_id, controller)
        frame = envelope.encode_request(
            correlation_id, client_id, self._request, context.principal, context.peer
        )
        channel.send(correlation_id, frame, self)

    def _is_for_this_process(self) -> bool:
        return self._context.api_key == INCREMENTAL_ALTER_CONFIGS and loggers.are_named_by(self._decoded)

    def answered(self, response: memoryview) -> None:
        if self._done:
            return
        error, data, metadata_offset = envelope.decode_response(response)
        if error is ErrorCode.NOT_CONTROLLER or data is None:
            self._again()
            return
        self._stop_timers()
        frame = INT32.pack(len(data)) + data
        broker = self._relay.broker
        when_known(
            broker,
            lambda: broker.store.committed_offset >= metadata_offset,
            lambda: broker.partitions.when_open(lambda: self._respond(frame)),
        )

    def lost(self, *, sent: bool) -> None:
        self._again()

    def _moved(self) -> None:
        """This node was the active controller until a moment ago."""
        self._is_handled_here = False
        if self._must_finish:
            self.finish_now()
        elif not self._done:
            self._set_deadline()
            self._again()

    def _again(self) -> None:
        """Retry: there was no active controller, or it is unknown whether it got the request."""
        if not self._done and self._retry is None:
            self._retry = self._services.later(RETRY_MS, self.attempt)

    def _respond(self, frame: bytes) -> None:
        if not self._done:
            self.cancel()
            self._finish(frame)

    def _give_up(self, reason: str) -> None:
        self.cancel()
        self._connection.close(reason)

    def finish_now(self) -> None:
        """The client's timeout has expired, or this node stops."""
        if self._done:
            return
        if self._decoded is None or self._is_handled_here:
            self._must_finish = True
            return
        compute = self._relay.compute
        if compute is None or len(self._request) < HUGE_BYTES:
            self._respond(self._refusal())
        else:
            self._stop_timers()
            compute(self._refusal, self._refused_elsewhere)

    def _refusal(self) -> bytes:
        context = self._context
        message = "no active controller responded in time"
        fields = RELAYED[context.api_key](self._decoded, ErrorCode.REQUEST_TIMED_OUT, message)
        return messages.encode(context.api_key, context.version, context.correlation_id, fields)

    def _refused_elsewhere(self, frame: bytes | BaseException) -> None:
        if isinstance(frame, bytes):
            self._respond(frame)
        else:
            self._connection.close(handling.why_not_decoded(self._context, frame))

    def cancel(self) -> None:
        self._done = True
        self._stop_timers()

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._retry):
            if timer is not None:
                timer.cancel()
