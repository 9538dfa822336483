"""AllocateProducerIds, version 0: reserves a block of producer ids for a broker. Only brokers send it.

Ignored: the broker epoch. Ids reserved by an earlier incarnation of the broker stay unused, which is
harmless.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.controller import producer_ids
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    response: Future[Fields] = Future()
    reserved = range(0)

    def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
        nonlocal reserved
        if request.broker_id not in image.brokers:
            raise TidelogError(f"there is no broker {request.broker_id}", ErrorCode.BROKER_ID_NOT_REGISTERED)
        record = producer_ids.reserve(image)
        reserved = range(image.next_producer_id, record.next_id)
        return [record]

    def done(refusal: TidelogError | None) -> None:
        if refusal is not None:
            response.complete({"error_code": refusal.code})
        else:
            response.complete({"producer_id_start": reserved.start, "producer_id_len": len(reserved)})

    broker.store.submit(decide, done)
    return response
