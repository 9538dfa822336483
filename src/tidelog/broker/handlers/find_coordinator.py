"""FindCoordinator, all versions kio knows: says clearly that consumer groups and transactions are not there
yet.

It must be announced all the same: librdkafka compresses with lz4 only where it sees version 0 of it.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.types import NO_BROKER

GROUP, TRANSACTION = 0, 1


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    refusal = _refusal(getattr(request, "key_type", GROUP))
    keys = getattr(request, "coordinator_keys", ())
    return {**refusal, "coordinators": [{"key": key, **refusal} for key in keys]}


def _refusal(key_type: int) -> Fields:
    if key_type == TRANSACTION:
        # Final for every client: a transactional producer fails at once instead of asking until its time is
        # up.
        code, message = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported yet"
    else:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        message = "consumer groups are not supported yet: assign partitions by hand"
    return {"error_code": code, "error_message": message, "node_id": NO_BROKER, "host": "", "port": -1}
