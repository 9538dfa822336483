"""UnregisterBroker, version 0: removes a broker that will not return from the cluster."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.deciding import submit_together
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.controller import brokers
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    def respond(failure: TidelogError | None, refusals: list[TidelogError | None]) -> Fields:
        refusal = failure or refusals[0]
        if refusal is None:
            return {"error_code": ErrorCode.NONE, "error_message": None}
        return {"error_code": refusal.code, "error_message": refusal.message}

    return submit_together(broker, [lambda image: brokers.unregister(image, request.broker_id)], respond)
