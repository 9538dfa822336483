"""Rules about the listeners that nodes use for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.config.listeners import SecurityProtocol
from tidelog.config.tls_table import REQUIRED

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig


def authenticates_nodes(config: BrokerConfig) -> bool:
    """Whether each listener that nodes use finds out who they are."""
    return all(
        listener.protocol.uses_sasl
        or (
            listener.protocol is SecurityProtocol.SSL
            and config.of_listener(listener.name).ssl_client_auth == REQUIRED
        )
        for listener in config.listeners
        if listener.name in config.peer_listener_names
    )
