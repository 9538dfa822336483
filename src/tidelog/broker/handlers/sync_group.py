"""SyncGroup, versions 0 to 5: the response is sent when the group leader's assignment is committed."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.coordination import answered, machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.messages import SyncRequest, SyncResponse
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    try:
        machine = machine_of(broker, request.group_id)
    except TidelogError as refusal:
        if refusal.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was lost with the previous coordinator, so the member must join again.
            return _fields(SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        return _fields(refusal)
    syncing = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id,
        protocol_type=getattr(request, "protocol_type", None),
        protocol=getattr(request, "protocol_name", None),
        assignments=tuple((given.member_id, bytes(given.assignment)) for given in request.assignments),
    )
    return answered(machine.ask(lambda waiter, now: machine.groups.sync(syncing, waiter, now)), _fields)


def _fields(response: SyncResponse | TidelogError) -> Fields:
    if isinstance(response, TidelogError):
        response = SyncResponse(response.code)
    return {
        "error_code": response.error,
        "protocol_type": response.protocol_type,
        "protocol_name": response.protocol,
        "assignment": response.assignment,
    }
