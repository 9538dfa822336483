"""Create-, Renew-, Expire- and DescribeDelegationToken, in all versions: always refused.

There are no tokens, because clients are not authenticated. The error is the one of Kafka on a plaintext
listener. Without these APIs the connection would be closed, and clients would take that for a broker failure.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode

NO_TIMES = {"issue_timestamp": 0, "expiry_timestamp": 0, "max_timestamp": 0}


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, **NO_TIMES}
