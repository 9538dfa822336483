"""Rules between the settings of listeners: which names there are, who uses which listener, and which address
is open to everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.config.controllers import BROKER_ROLE
from tidelog.config.listeners import Listener, ProtocolsByName, SecurityProtocol
from tidelog.config.table import refuse
from tidelog.config.tls_table import REQUIRED
from tidelog.errors import InvalidConfig

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig


def with_protocols(listeners: Sequence[Listener], protocols: ProtocolsByName) -> tuple[Listener, ...]:
    """The listeners with the protocols that ``listener.security.protocol.map`` gives them."""
    return tuple(listener._replace(protocol=protocol_of(listener.name, protocols)) for listener in listeners)


def protocol_of(name: str, protocols: ProtocolsByName) -> SecurityProtocol:
    by_name = dict(protocols)
    if name in by_name:
        return by_name[name]
    return SecurityProtocol.__members__.get(name, SecurityProtocol.PLAINTEXT)


def check_listeners(config: BrokerConfig) -> None:
    names = {listener.name for listener in config.listeners}
    known = "a name from listeners: " + ", ".join(sorted(names))
    for listener in config.advertised_listeners:
        if listener.name not in names:
            refuse("advertised.listeners", str(listener), known)
    if config.listener_security_protocol_map:
        mapped = {name for name, _ in config.listener_security_protocol_map}
        for listener in config.listeners:
            if listener.name not in mapped and listener.name not in SecurityProtocol.__members__:
                # Not PLAINTEXT by default: a map of some of the listeners was meant to have this one, too.
                told = ",".join(sorted(mapped))
                refuse("listener.security.protocol.map", told, f"with a protocol for {listener.name}")
    for name in config.listener_values:
        if name not in names and name not in config.controller_listener_names:
            refuse("listener.name", name.lower(), known)
    _check_inter_broker(config, names)


def refuse_insecure_listeners(config: BrokerConfig) -> None:
    """For a broker that is about to listen."""
    if not config.allow_insecure_listeners:
        for listener in insecure_listeners(config):
            raise InvalidConfig(
                f"{listener} is refused: every client that reaches it could use the cluster, because "
                "the listener has no authentication. Use SASL_SSL, or SSL with ssl.client.auth=required, or "
                "accept it with allow.insecure.listeners=true."
            )


def _check_inter_broker(config: BrokerConfig, names: set[str]) -> None:
    name = config.inter_broker_listener_name
    if name is None:
        return
    advertised = {listener.name for listener in config.advertised_listeners}
    if name not in names or (BROKER_ROLE in config.process_roles and name not in advertised):
        usable = ", ".join(sorted(names & advertised))
        refuse("inter.broker.listener.name", name, f"the name of an advertised listener: {usable}")
    if name in config.controller_listener_names:
        refuse("inter.broker.listener.name", name, "none of controller.listener.names")


def insecure_listeners(config: BrokerConfig) -> list[Listener]:
    """Listeners that other machines may reach and that authenticate no client."""
    return [
        listener
        for listener in config.listeners
        if not listener.loopback
        and not listener.protocol.uses_sasl
        and not (
            listener.protocol is SecurityProtocol.SSL
            and config.of_listener(listener.name).ssl_client_auth == REQUIRED
        )
    ]
