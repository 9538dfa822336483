"""Handles requests that are not for a local handler: those of other nodes, and clients' requests that only
the active controller can handle.
"""

from tidelog.broker.requests.request import RequestContext
from tidelog.runtime.peers.inbound import Inbound, Reply
from tidelog.runtime.peers.relay import ClientConnection, Relay
from tidelog.runtime.peers.trust import NodeTrust
from tidelog.runtime.pending import PendingRequest


class Gate:
    def __init__(self, inbound: Inbound, relay: Relay, trust: NodeTrust | None = None) -> None:
        """``trust``: who is a node; by default, who says so."""
        self.trust = NodeTrust() if trust is None else trust
        self._inbound = inbound
        self._relay = relay
        self.connected = inbound.connected
        self.disconnected = inbound.disconnected
        self.fetch = inbound.fetch

    def serves(self, api_key: int, version: int) -> bool:
        """Whether this is an API between nodes, which is not announced to clients."""
        return self._inbound.serves(api_key, version) or self._relay.serves(api_key, version)

    def wants(self, api_key: int, version: int, *, known: bool, by_node: bool) -> bool:
        """Whether a request is for :meth:`take` or :meth:`relay` and not for a handler. ``known``: there is a
        handler. Some requests have another meaning between nodes.
        """
        if by_node:
            return not known or self._inbound.serves(api_key, version)
        return not known or self.relays(api_key)

    def take(
        self,
        request: memoryview,
        position: int,
        context: RequestContext,
        reply: Reply,
        connection: ClientConnection,
    ) -> PendingRequest | None:
        """A request of another node."""
        if self._relay.serves(context.api_key, context.version):
            return self._relay.open(request, position, context, reply, connection)
        return self._inbound.take(request, position, context, reply)

    def relays(self, api_key: int) -> bool:
        return self._relay.wants(api_key)

    def relay(
        self,
        request: memoryview,
        position: int,
        context: RequestContext,
        reply: Reply,
        connection: ClientConnection,
    ) -> PendingRequest:
        """Forward a client's request to the active controller on another node."""
        return self._relay.pass_on(request, position, context, lambda frame: reply((frame,)), connection)
