"""Create-, Renew-, Expire- and DescribeDelegationToken, in all versions: always refused.

There are no tokens. The error is the one of Kafka for clients without a name (listeners PLAINTEXT, and SSL
without client certificates). Kafka checks the listener before it looks whether tokens are enabled. Without
these APIs the connection would be closed, and clients would take that for a broker failure.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return {"error_code": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
