"""Where clients reach a broker: an address for each of its listeners.

A client that came in by one listener is told the addresses of the listener with the same name at the other
brokers, because it may not reach their other addresses, or may not speak their protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tidelog.controller.image import BrokerImage, ClusterImage


class Endpoint(msgspec.Struct, frozen=True):
    name: str  # of the listener
    host: str
    port: int
    protocol: int = 0  # Kafka's code of its security protocol


def endpoint_for(image: ClusterImage, me: int, node: BrokerImage, listener: str) -> Endpoint | None:
    """The address of ``node`` for a client of this broker's ``listener``. None if that broker has no such
    listener, as in Kafka: its other addresses are not meant for this client.

    A listener that is not advertised by this broker, such as that of controllers, has no addresses of its
    own. And a broker of an earlier version has not said which listeners it has. Both have one address.
    """
    mine = image.brokers.get(me)
    only = Endpoint(listener, node.host, node.port)
    if not node.endpoints or mine is None or _named(mine.endpoints, listener) is None:
        return only
    return _named(node.endpoints, listener)


def _named(endpoints: Iterable[Endpoint], name: str) -> Endpoint | None:
    return next((each for each in endpoints if each.name == name), None)
