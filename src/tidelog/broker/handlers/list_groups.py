"""ListGroups, versions 0 to 5: the groups this broker coordinates, by state and kind."""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields

LISTED_PER_SLICE = 500  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if broker.coordinators.groups.loading:
        # With an incomplete list, groups would seem to be deleted.
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    states = {state.lower() for state in getattr(request, "states_filter", None) or ()}
    kinds = {kind.lower() for kind in getattr(request, "types_filter", None) or ()}
    rows: list[Fields] = []

    def list_each() -> Iterator[None]:
        for machine in list(broker.coordinators.groups.machines()):
            for group in machine.groups.list(states, kinds):
                if group is not None:
                    rows.append(
                        {
                            "group_id": group.group_id,
                            "protocol_type": group.protocol_type,
                            "group_state": group.state,
                            "group_type": group.kind,
                        }
                    )
                yield

    def respond() -> Fields:
        return {"error_code": ErrorCode.NONE, "groups": rows}

    return respond_in_slices(broker.services, list_each(), LISTED_PER_SLICE, respond)
