"""SaslAuthenticate, versions 0 to 2, on a connection that has nothing to authenticate: refused, as in Kafka.
Where a connection can log in, its login takes the request (:mod:`tidelog.runtime.authentication`).
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    return {
        "error_code": ErrorCode.ILLEGAL_SASL_STATE,
        "error_message": "SaslAuthenticate without a SaslHandshake before it",
        "auth_bytes": b"",
    }
