"""DeleteAcls, versions 1 to 3: removes the access rules that filters select, and names them."""

from collections.abc import Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext, error_of
from tidelog.broker.requests.security import check_authorizer, filter_of
from tidelog.broker.requests.submission import Decide, refuse, rows_in_slices, submit_each
from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Acl, AclFilter


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    removed: dict[int, list[Acl]] = {}
    decisions = (_decision(broker, place, each, removed) for place, each in enumerate(request.filters))

    def respond(refusals: list[TidelogError | None]) -> Outcome:
        results = (
            {
                **error_of(refusal),
                "matching_acls": [] if refusal else [_fields(acl) for acl in removed[place]],
            }
            for place, refusal in enumerate(refusals)
        )
        return rows_in_slices(broker, results, lambda rows: {"filter_results": rows})

    return submit_each(broker, decisions, respond)


def _decision(broker: Broker, place: int, asked: Any, removed: dict[int, list[Acl]]) -> Decide:
    try:
        check_authorizer(broker)
        wanted = filter_of(asked)
    except TidelogError as refusal:
        return refuse(refusal)
    return lambda image: _remove(image, wanted, place, removed)


def _remove(
    image: ClusterImage, wanted: AclFilter, place: int, removed: dict[int, list[Acl]]
) -> Sequence[MetadataRecord]:
    removed[place], records = security.remove_acls(image.security, wanted)
    return records


def _fields(acl: Acl) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
