"""InitProducerId, versions 0 to 6: an id by which a producer's retries are recognised.

A producer that asks again, with the id it has or without, gets a new one and begins at epoch 0, as in Kafka:
an idempotent producer raises its epoch by itself. Refused: transactional ids (transactions come later). The
code is one that every client takes for final; others make librdkafka ask again for ever.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.producer_ids import Grant
from tidelog.broker.promise import Promise
from tidelog.broker.request import Outcome, RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields

NO_PRODUCER_ID = -1
NO_EPOCH = -1


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    has_id = getattr(request, "producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID
    has_epoch = getattr(request, "producer_epoch", NO_EPOCH) != NO_EPOCH
    if has_id != has_epoch or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    answer: Promise[Fields] = Promise()
    broker.producer_ids.next().then(lambda grant: answer.keep(_answer(grant)))
    return answer


def _answer(grant: Grant) -> Fields:
    if isinstance(grant, int):
        return {"error_code": ErrorCode.NONE, "producer_id": grant, "producer_epoch": 0}
    # Whatever stands in the way of the controller: clients wait for a coordinator and ask again.
    return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}
