"""Which connection has to log in, and to what: clients at SASL listeners, nodes with the secret."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from tidelog.config import BrokerConfig, Listener
from tidelog.runtime.authentication import Compute, LoggingIn, Login, Offer, Pace
from tidelog.runtime.client_logins import ClientLogins, ClientOffer
from tidelog.runtime.peers import names
from tidelog.runtime.peers.node_offer import NodeOffer
from tidelog.runtime.peers.trust import NodeTrust
from tidelog.security.principal import Principal


class Connected(LoggingIn, Protocol):
    listener: Listener
    principal: Principal
    node: int | None

    def accept_client(self, principal: Principal) -> None: ...

    def accept_node(self, node: int, to: int) -> None:
        """Raises ``HangUp`` if it is meant for another node."""


class Logins:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        trust: NodeTrust | None = None,
        compute: Compute | None = None,
        clients: Mapping[str, ClientLogins] | None = None,
    ) -> None:
        """``clients``: of each SASL listener, by its name."""
        self.pace = Pace(
            loop, config.sasl_login_timeout_ms, config.connection_failed_authentication_delay_ms, compute
        )
        self._trust = trust
        self._clients = clients or {}

    def first(self, connection: Connected) -> Login | None:
        """For a new connection; None if it can be used as it is."""
        clients = self._clients.get(connection.listener.name)
        if clients is None:
            return None
        return Login(connection, lambda client_id: self._offer(connection, clients, client_id), self.pace,
                     is_usable=False)  # fmt: skip

    def bytes_max(self, connection: Connected) -> int | None:
        """The largest request before it has authenticated; None: as afterwards."""
        clients = self._clients.get(connection.listener.name)
        return None if clients is None else clients.token_bytes_max

    def _offer(self, connection: Connected, clients: ClientLogins, client_id: str | None) -> Offer:
        return self._node_offer(connection, client_id) or ClientOffer(clients, connection.accept_client, None)

    def _node_offer(self, connection: Connected, client_id: str | None) -> Offer | None:
        trust, parties = self._trust, names.parties(client_id)
        if trust is None or trust.secret is None or parties is None:
            return None
        if not trust.expects_nodes(connection.listener.name):
            return None
        return NodeOffer(trust.secret, parties, connection.accept_node)

    def later(self, connection: Connected, client_id: str | None) -> Login | None:
        """For a handshake of a connection that can be used already; None if there is nothing to log in to."""
        if connection.node is not None:
            return None
        clients = self._clients.get(connection.listener.name)
        if clients is not None:
            return self._again(connection, clients, is_usable=True) if clients.max_reauth_ms else None
        offer = self._node_offer(connection, client_id)
        return None if offer is None else Login(connection, lambda _: offer, self.pace, is_usable=True)

    def expired(self, connection: Connected) -> Login | None:
        """For a connection whose session has ended. As in Kafka, any other request closes it."""
        clients = self._clients.get(connection.listener.name)
        return None if clients is None else self._again(connection, clients, is_usable=False)

    def _again(self, connection: Connected, clients: ClientLogins, *, is_usable: bool) -> Login:
        only = connection.principal
        return Login(
            connection,
            lambda _: ClientOffer(clients, connection.accept_client, only),
            self.pace,
            is_usable=is_usable,
            has_deadline=False,
        )
