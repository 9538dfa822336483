"""DescribeAcls, versions 1 to 3: the access rules that a filter selects, by resource."""

from itertools import groupby
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.security import check_authorizer, filter_of
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Acl, select


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    try:
        check_authorizer(broker)
        selected = select(broker.image.security.acls, filter_of(request))
    except TidelogError as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message, "resources": []}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "pattern_type": pattern,
                "acls": [_entry(acl) for acl in acls],
            }
            for (kind, name, pattern), acls in groupby(selected, key=lambda acl: acl[:3])
        ],
    }


def _entry(acl: Acl) -> Fields:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
