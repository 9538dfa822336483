"""ListGroups, versions 0 to 5: the groups this broker coordinates, by state and kind.

With DESCRIBE on the cluster a client sees all of them, otherwise those that it may describe.
"""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.access import access_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, Operation, ResourceType

LISTED_PER_SLICE = 500  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if broker.coordinators.groups.loading:
        # With an incomplete list, groups would seem to be deleted.
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    states = {state.lower() for state in getattr(request, "states_filter", None) or ()}
    kinds = {kind.lower() for kind in getattr(request, "types_filter", None) or ()}
    rows: list[Fields] = []
    access = access_of(broker, context)
    sees_all = access is None or access.sees(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    def sees(group_id: str) -> bool:
        return access is None or access.sees(Operation.DESCRIBE, ResourceType.GROUP, group_id)

    def list_each() -> Iterator[None]:
        for machine in list(broker.coordinators.groups.machines()):
            for group in machine.groups.list(states, kinds):
                if group is not None and (sees_all or sees(group.group_id)):
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
