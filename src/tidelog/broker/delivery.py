"""Requests of this broker to its own handlers, which handle them like requests from the network."""

import logging
from functools import partial

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.links.links import Done, LocalLinks
from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields, name_of

logger = logging.getLogger(__name__)


def local_links(broker: Broker) -> LocalLinks:
    """The links of a broker without other brokers."""
    return LocalLinks(broker.broker_id, broker.services, partial(deliver, broker))


def deliver(broker: Broker, api_key: int, body: Fields, done: Done, version: int | None = None) -> None:
    """Deliver a request to this broker's own handler; by default in the newest version."""
    version = requests.newest(api_key) if version is None else version
    context = RequestContext(api_key, version, 0, None, "this broker", by_node=True)

    def respond(fields: Fields) -> None:
        done(requests.response_of(api_key, fields, version))

    handler = SERVED[api_key].handler
    try:
        outcome = handler(broker, requests.request_of(api_key, body, version), context)  # type: ignore[misc]
    except TidelogError as refusal:
        done(refusal)
    except Exception:
        logger.exception("a local %s request failed", name_of(api_key))
        done(TidelogError("the request failed", ErrorCode.UNKNOWN_SERVER_ERROR))
    else:
        if isinstance(outcome, Future):
            outcome.then(respond)
        else:
            respond(outcome)
