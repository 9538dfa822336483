"""JoinGroup, versions 0 to 9: the response is sent with the group's next generation. Ignored: the reason."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.coordination import answered, client_host, machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.messages import JoinRequest, JoinResponse
from tidelog.protocol.messages import Fields, milliseconds

KNOWN_ID_FROM = 4  # A new member first gets an id and then joins with it.
NO_PROTOCOL_FROM = 7  # Errors have a null protocol; before, an empty one.
SKIP_ASSIGNMENT_FROM = 9


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    def fields(response: JoinResponse | TidelogError) -> Fields:
        if isinstance(response, TidelogError):
            response = JoinResponse(response.code, request.member_id)
        return _fields(response, context.version)

    try:
        machine = machine_of(broker, request.group_id)
    except TidelogError as refusal:
        return fields(refusal)
    joining = _join_request(broker, request, context)
    return answered(machine.ask(lambda waiter, now: machine.groups.join(joining, waiter, now)), fields)


def _join_request(broker: Broker, request: Any, context: RequestContext) -> JoinRequest:
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout = getattr(request, "rebalance_timeout", None)
    instance_id = getattr(request, "group_instance_id", None)
    client_id = context.client_id or ""
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout is None else milliseconds(rebalance_timeout)
        ),
        client_id=client_id,
        client_host=client_host(context),
        new_member_id=f"{instance_id or client_id}-{broker.services.new_uuid()}",
        needs_known_id=context.version >= KNOWN_ID_FROM,
        can_skip_assignment=context.version >= SKIP_ASSIGNMENT_FROM,
    )


def _fields(response: JoinResponse, version: int) -> Fields:
    protocol = response.protocol
    if protocol is None and version < NO_PROTOCOL_FROM:
        protocol = ""
    # Older clients do not know MEMBER_ID_REQUIRED.
    invalid = response.error == ErrorCode.MEMBER_ID_REQUIRED and version < KNOWN_ID_FROM
    return {
        "error_code": ErrorCode.UNKNOWN_MEMBER_ID if invalid else response.error,
        "generation_id": response.generation,
        "protocol_type": response.protocol_type,
        "protocol_name": protocol,
        "leader": response.leader,
        "skip_assignment": response.skip_assignment,
        "member_id": response.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata,
            }
            for member in response.members
        ],
    }
