"""Heartbeat, versions 0 to 4: extends a member's session and reports whether a rebalance has begun."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.effects import Effects, Now
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    instance_id = getattr(request, "group_instance_id", None)
    try:
        machine = machine_of(broker, request.group_id)

        def beat(now: Now) -> tuple[None, Effects]:
            machine.groups.heartbeat(
                request.group_id, request.member_id, instance_id, request.generation_id, now
            )
            return None, []

        machine.tell(beat)
    except TidelogError as refusal:
        if refusal.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Sessions restart when the group is loaded, so the member need not do anything.
            return {"error_code": ErrorCode.NONE}
        return {"error_code": refusal.code}
    return {"error_code": ErrorCode.NONE}
