"""Forwards clients' requests to the active controller in an envelope, and handles envelopes there.

A broker that is not the active controller forwards such a request unchanged. It retries until the client's
timeout if the controller has changed or the connection broke. A node that is not the active controller
refuses an envelope and does not forward it. Otherwise two brokers that believe each other to be the
controller would forward it in a loop. A client that has created a topic must find it on the same broker. So
the response waits until that broker's metadata is as new as the controller's.
"""

from collections.abc import Callable, Sequence

from tidelog.broker.broker import Broker
from tidelog.broker.links.to_controller import RELAYED, RETRY_MS, timeout_ms_of, when_known
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, messages
from tidelog.protocol.fetch import Part
from tidelog.protocol.wire import INT32, Malformed
from tidelog.runtime import handling
from tidelog.runtime.peers import names
from tidelog.runtime.peers.peers import REQUESTS, WirePeers
from tidelog.services import Timer

Finish = Callable[[bytes], None]
Reply = Callable[[Sequence[Part | bytes]], None]


class Relay:
    def __init__(
        self, broker: Broker, peers: WirePeers, controller: Callable[[], int], active: Callable[[], bool]
    ) -> None:
        self.broker = broker
        self.peers = peers
        self.controller = controller  # the known active controller; -1 if unknown
        self.active = active  # whether this node is the active controller

    # --- at the broker of the client ------------------------------------------------------------------------

    def wants(self, api_key: int) -> bool:
        return api_key in RELAYED and not self.active()

    def pass_on(
        self, request: memoryview, position: int, context: RequestContext, finish: Finish
    ) -> "Relayed":
        relayed = Relayed(self, request, position, context, finish)
        relayed.attempt()
        return relayed

    # --- at the controller ----------------------------------------------------------------------------------

    def serves(self, api_key: int, version: int) -> bool:
        return (api_key, version) == (envelope.API_KEY, envelope.VERSION)

    def open(self, request: memoryview, position: int, context: RequestContext, reply: Reply) -> None:
        def answer(error: ErrorCode, data: memoryview | None = None) -> None:
            offset = self.broker.store.committed_offset
            reply((envelope.encode_response(context.correlation_id, error, data, offset),))

        inner = envelope.decode_request(request, position)
        if not self.active():
            answer(ErrorCode.NOT_CONTROLLER)
            return
        try:
            inner_context, start = handling.read_header(inner, context.peer)
            if inner_context.api_key not in RELAYED:
                raise Malformed("not a request for the controller")
            handling.handle_plain(
                self.broker,
                inner,
                start,
                inner_context,
                lambda frame: answer(ErrorCode.NONE, memoryview(frame)[4:]),
                lambda reason: answer(ErrorCode.UNKNOWN_SERVER_ERROR),
            )
        except Malformed:
            answer(ErrorCode.INVALID_REQUEST)


class Relayed:
    """One forwarded request until its response."""

    def __init__(
        self, relay: Relay, request: memoryview, position: int, context: RequestContext, finish: Finish
    ) -> None:
        self._relay = relay
        self._services = relay.broker.services
        self._request = request
        self._position = position
        self._context = context
        self._finish = finish
        # Decoded here, so that an invalid request is not forwarded.
        self._decoded = messages.decode(context.api_key, context.version, request, position)
        self._done = False
        self._retry: Timer | None = None
        self._deadline: Timer = self._services.later(timeout_ms_of(self._decoded), self.finish_now)

    def attempt(self) -> None:
        self._retry = None
        relay = self._relay
        if relay.active():
            # This node became the active controller while the request waited.
            self._deadline.cancel()
            handling.handle_plain(
                relay.broker, self._request, self._position, self._context, self._answer, self._give_up
            )
            return
        controller = relay.controller()
        if controller in (-1, relay.broker.broker_id):
            self._again()
            return
        channel = relay.peers.channel(controller, REQUESTS)
        correlation_id = channel.next_correlation_id()
        host = self._context.peer.encode()
        client_id = names.client_id(relay.broker.broker_id, controller)
        frame = envelope.encode_request(correlation_id, client_id, self._request, host)
        channel.send(correlation_id, frame, self)

    def answered(self, answer: memoryview) -> None:
        if self._done:
            return
        error, data, metadata_offset = envelope.decode_response(answer)
        if error is ErrorCode.NOT_CONTROLLER or data is None:
            self._again()
            return
        self._deadline.cancel()
        frame = INT32.pack(len(data)) + data
        broker = self._relay.broker
        when_known(
            broker,
            lambda: broker.store.committed_offset >= metadata_offset,
            lambda: broker.partitions.when_open(lambda: self._answer(frame)),
        )

    def lost(self, *, sent: bool) -> None:
        self._again()

    def _again(self) -> None:
        """Retry: there was no active controller, or it is unknown whether it got the request."""
        if not self._done and self._retry is None:
            self._retry = self._services.later(RETRY_MS, self.attempt)

    def _answer(self, frame: bytes) -> None:
        if not self._done:
            self.cancel()
            self._finish(frame)

    def _give_up(self, reason: str) -> None:
        self.finish_now()

    def finish_now(self) -> None:
        """The client's timeout has expired."""
        context = self._context
        message = "no active controller responded in time"
        fields = RELAYED[context.api_key](self._decoded, ErrorCode.REQUEST_TIMED_OUT, message)
        self._answer(messages.encode(context.api_key, context.version, context.correlation_id, fields))

    def cancel(self) -> None:
        self._done = True
        self._deadline.cancel()
        if self._retry is not None:
            self._retry.cancel()
