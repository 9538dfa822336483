"""ListConfigResources, versions 0 and 1: the names of everything that has settings.

Version 0 asks for subscriptions to client metrics only, of which there are none.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from tidelog.controller.image import ClusterImage
from tidelog.errors import ErrorCode

NAMES: dict[int, Callable[[ClusterImage], Iterable[str]]] = {
    TOPIC: lambda image: sorted(image.topics),
    BROKER: lambda image: map(str, sorted(image.brokers)),
    BROKER_LOGGER: lambda image: map(str, sorted(image.brokers)),
    CLIENT_METRICS: lambda _: (),
    GROUP: lambda image: sorted(image.group_configs),
}


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    wanted = getattr(request, "resource_types", (CLIENT_METRICS,)) or tuple(NAMES)
    if not set(wanted) <= set(NAMES):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "config_resources": []}
    return {
        "error_code": ErrorCode.NONE,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in dict.fromkeys(wanted)
            for name in NAMES[kind](broker.image)
        ],
    }
