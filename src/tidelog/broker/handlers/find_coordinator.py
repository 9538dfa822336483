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

MESSAGE = "consumer groups and transactions are not supported yet: assign partitions by hand"


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    refusal = {
        "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "error_message": MESSAGE,
        "node_id": NO_BROKER,
        "host": "",
        "port": -1,
    }
    keys = getattr(request, "coordinator_keys", ())
    return {**refusal, "coordinators": [{"key": key, **refusal} for key in keys]}
