"""Requests of this broker to other brokers, and to itself: where a coordinator or a partition's leader lives
must make no difference to whoever needs it.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.broker.promise import Promise
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields, name_of

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

logger = logging.getLogger(__name__)

Done = Callable[[Any], None]
"""Gets the answer as kio's entity in the newest version, or a ``TidelogError``."""


class Links(Protocol):
    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        """Ask a broker; ``done`` is called once, and never before this returns. Its error is
        BROKER_NOT_AVAILABLE when the broker could not be asked, NETWORK_EXCEPTION when the connection broke
        and nobody knows whether it was, REQUEST_TIMED_OUT when no answer came in time.
        """

    def controller(self) -> int:
        """Where the active controller is, as far as we know; -1 when we do not."""


class LocalLinks:
    """For a broker that knows no other."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def controller(self) -> int:
        return self._broker.broker_id

    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        broker = self._broker
        if broker_id == broker.broker_id:
            broker.services.soon(lambda: deliver(broker, api_key, body, done))
        else:
            error = TidelogError(f"there is no broker {broker_id}", ErrorCode.BROKER_NOT_AVAILABLE)
            broker.services.soon(lambda: done(error))


def deliver(broker: "Broker", api_key: int, body: Fields, done: Done, version: int | None = None) -> None:
    """To our own handler, which sees the same as if it had come over the wire. Without a version: the newest
    one.
    """
    from tidelog.broker.registry import SERVED  # The handlers know the broker, and the broker its links.

    version = requests.newest(api_key) if version is None else version
    context = RequestContext(api_key, version, 0, None, "this broker")

    def answer(fields: Fields) -> None:
        done(requests.answer_of(api_key, fields, version))

    handler = SERVED[api_key].handler
    try:
        outcome = handler(broker, requests.request_of(api_key, body, version), context)  # type: ignore[misc]
    except TidelogError as refusal:
        done(refusal)
    except Exception:
        logger.exception("a %s request to ourselves failed", name_of(api_key))
        done(TidelogError("the request failed", ErrorCode.UNKNOWN_SERVER_ERROR))
    else:
        if isinstance(outcome, Promise):
            outcome.then(answer)
        else:
            answer(outcome)
