"""ListGroups, versions 0 to 5: the groups this broker coordinates, by state and kind."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    if broker.coordinators.groups.loading:
        # With an incomplete list, groups would seem to be deleted.
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    states = {state.lower() for state in getattr(request, "states_filter", None) or ()}
    kinds = {kind.lower() for kind in getattr(request, "types_filter", None) or ()}
    return {
        "error_code": ErrorCode.NONE,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.kind,
            }
            for machine in broker.coordinators.groups.machines()
            for group in machine.groups.list(states, kinds)
        ],
    }
