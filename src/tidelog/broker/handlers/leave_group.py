"""LeaveGroup, versions 0 to 5: one member, or from version 3 on several. Ignored: the reasons."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.messages import LeavingMember
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    several = getattr(request, "members", None)
    if several is None:
        members = [LeavingMember(request.member_id, None)]
    else:
        members = [LeavingMember(member.member_id, member.group_instance_id) for member in several]
    try:
        machine = machine_of(broker, request.group_id)
        errors = machine.tell(lambda now: machine.groups.leave(request.group_id, members, now))
    except TidelogError as refusal:
        return {"error_code": refusal.code, "members": []}
    if several is None:
        return {"error_code": errors[0]}
    return {
        "error_code": ErrorCode.NONE,
        "members": [
            {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": error}
            for member, error in zip(members, errors, strict=True)
        ],
    }
