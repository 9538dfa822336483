"""Requests of this broker to other brokers and to itself, so that callers need not know whether a coordinator
or a partition's leader is remote.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.services import Services

Done = Callable[[Any], None]
"""Gets the response as kio's entity in the newest version, or a ``TidelogError``."""


Deliver = Callable[[int, Fields, Done], None]
"""Delivers (API key, body) to this broker's own handler."""


class Links(Protocol):
    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        """Send a request to a broker. ``done`` is called once, and never before this returns. Its error is
        BROKER_NOT_AVAILABLE if the request could not be sent, NETWORK_EXCEPTION if the connection broke and
        it is unknown whether the request arrived, REQUEST_TIMED_OUT if there was no response in time.
        """

    def controller(self) -> int:
        """The node id of the active controller; -1 if unknown."""


class LocalLinks:
    """For a broker without other brokers. ``deliver`` passes requests to its own handlers."""

    def __init__(self, me: int, services: Services, deliver: Deliver) -> None:
        self._me = me
        self._services = services
        self._deliver = deliver

    def controller(self) -> int:
        return self._me

    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        if broker_id == self._me:
            self._services.soon(lambda: self._deliver(api_key, body, done))
        else:
            error = TidelogError(f"there is no broker {broker_id}", ErrorCode.BROKER_NOT_AVAILABLE)
            self._services.soon(lambda: done(error))
