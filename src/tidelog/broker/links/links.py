"""Requests of this broker to other brokers, and to itself: where a coordinator or a partition's leader lives
must make no difference to whoever needs it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.services import Services

Done = Callable[[Any], None]
"""Gets the answer as kio's entity in the newest version, or a ``TidelogError``."""


Deliver = Callable[[int, Fields, Done], None]
"""Hands (API key, body) to this broker's own handler."""


class Links(Protocol):
    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        """Ask a broker; ``done`` is called once, and never before this returns. Its error is
        BROKER_NOT_AVAILABLE when the broker could not be asked, NETWORK_EXCEPTION when the connection broke
        and nobody knows whether it was, REQUEST_TIMED_OUT when no answer came in time.
        """

    def controller(self) -> int:
        """Where the active controller is, as far as we know; -1 when we do not."""


class LocalLinks:
    """For a broker that knows no other. ``deliver``: to its own handlers."""

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
