"""Rules about the listeners that nodes use for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.config.listeners import SecurityProtocol
from tidelog.config.tls_table import REQUIRED
from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig


def refuse_unknown_nodes(config: BrokerConfig) -> None:
    """For a broker that is about to listen. Access rules do not apply to nodes, so it must be certain who is
    one.
    """
    if not config.authorizer_class_name:
        return
    required = config.cluster_secret_required if config.cluster_secret_file else authenticates_nodes(config)
    if not required:
        raise InvalidConfig(
            "authorizer.class.name is refused: a client that says that it is a node would bypass the access "
            "rules. Set cluster.secret.file, and leave cluster.secret.required at true."
        )


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
