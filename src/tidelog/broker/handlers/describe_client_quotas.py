"""DescribeClientQuotas, versions 0 and 1: the quotas of users, clients and addresses, by a filter."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.security.quota_entities import CLIENT_ID, IP, USER, QuotaEntity

EXACT, DEFAULT, ANY = 0, 1, 2


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    try:
        components = _components(request)
    except TidelogError as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message, "entries": None}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": value} for key, value in limits.items()],
            }
            for entity, limits in broker.image.security.quotas.items()
            if _selects(components, entity, strict=request.strict)
        ],
    }


def _components(request: Any) -> dict[str, tuple[int, str | None]]:
    components: dict[str, tuple[int, str | None]] = {}
    for each in request.components:
        if each.entity_type in components:
            raise InvalidRequest(f"Entity type {each.entity_type[:100]!r} occurs twice in the filter")
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise TidelogError(
                f"Custom entity type {each.entity_type[:100]!r} not supported", ErrorCode.UNSUPPORTED_VERSION
            )
        if each.match_type not in (EXACT, DEFAULT, ANY):
            raise InvalidRequest(f"Unknown match type {each.match_type}")
        if (each.match_type == EXACT) != (each.match is not None):
            raise InvalidRequest(f"Only match type {EXACT} has a name, and it needs one")
        components[each.entity_type] = (each.match_type, each.match)
    if IP in components and len(components) > 1:
        raise InvalidRequest("Invalid entity filter component combination: ip has quotas of its own")
    return components


def _selects(components: dict[str, tuple[int, str | None]], entity: QuotaEntity, *, strict: bool) -> bool:
    named = dict(entity)
    if not components.keys() <= named.keys() or (strict and len(named) > len(components)):
        return False
    return all(match_type == ANY or named[kind] == name for kind, (match_type, name) in components.items())
