"""Addresses: those of this node, as it tells others once its ports are known, and those of its clients."""

import socket
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import BrokerConfig, Listener
from tidelog.controller.endpoints import Endpoint

MAPPED = "::ffff:"  # what a listener with IPv6 writes before the addresses of clients with IPv4


def ip_of(peer: Sequence[object] | None) -> str:
    """The address of a client, from what the system says; "?" if it says nothing. An IPv4 address is written
    as such at every listener, so that access rules and limits for it count.
    """
    if not peer:
        return "?"
    ip = str(peer[0])
    return ip.removeprefix(MAPPED) if "." in ip else ip


class Addresses(NamedTuple):
    peers: Listener  # where other brokers connect to this node
    controller: Listener  # where they connect to it as a controller
    endpoints: tuple[Endpoint, ...]  # for clients, by listener

    @classmethod
    def of(cls, config: BrokerConfig, advertised: Sequence[Listener]) -> "Addresses":
        by_name = {listener.name: listener for listener in advertised}
        peers = by_name.get(config.inter_broker_listener.name, advertised[0])
        inner = config.controller_listener_names
        return cls(
            peers,
            by_name.get(config.controller_listener.name, peers),
            tuple(
                Endpoint(each.name, each.host, each.port, each.protocol)
                for each in advertised
                if each.name not in inner
            ),
        )


def advertised_addresses(config: BrokerConfig, sockets: Sequence[socket.socket]) -> list[Listener]:
    """The advertised addresses: the configured ones, with the actual ports and hosts. A listener for
    controllers is included if it has one address, although it is not advertised to clients.
    """
    bound = dict(zip(config.listeners, sockets, strict=True))
    ports = {listener.name: each.getsockname()[1] for listener, each in bound.items()}
    told = {listener.name for listener in config.advertised_listeners}
    inner = [
        listener
        for listener in config.listeners
        if listener.name in config.controller_listener_names
        and listener.name not in told
        and not listener.every_interface
    ]
    advertised = []
    for listener in (*config.advertised_listeners, *inner):
        host = socket.gethostname() if listener.every_interface else listener.host
        advertised.append(listener.at(host=host, port=listener.port or ports[listener.name]))
    return advertised
