"""DescribeGroups, versions 0 to 6: classic groups with their members."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.access import group_operations
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import describe_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.protocol.messages import Fields

NOT_FOUND_FROM = 6  # In older versions a group that does not exist has the state Dead.


DESCRIBED_PER_SLICE = 100  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return describe_in_slices(
        broker.services,
        dict.fromkeys(request.groups),  # A response may be a million times larger.
        lambda group_id: {
            **_describe(broker, group_id, context.version),
            **group_operations(broker, request, context, group_id),
        },
        DESCRIBED_PER_SLICE,
        lambda rows: {"groups": rows},
    )


def _describe(broker: Broker, group_id: str, version: int) -> Fields:
    try:
        description = machine_of(broker, group_id).groups.describe(group_id)
    except TidelogError as refusal:
        code, state = refusal.code, ""
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            state = ClassicGroupState.DEAD.value
            if version < NOT_FOUND_FROM:
                code = ErrorCode.NONE
        return {
            "error_code": code,
            "error_message": refusal.message if code else None,
            "group_id": group_id,
            "group_state": state,
        }
    return {
        "error_code": ErrorCode.NONE,
        "group_id": group_id,
        "group_state": description.state,
        "protocol_type": description.protocol_type,
        "protocol_data": description.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in description.members
        ],
    }
