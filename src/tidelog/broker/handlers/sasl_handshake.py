"""SaslHandshake, version 1, on a connection without SASL: refused, as in Kafka. Where a connection can log
in, its login takes the request (:mod:`tidelog.runtime.authentication`).

Not served: version 0, whose tokens follow without Kafka's headers.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields

VERSIONS = 1, 1


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
