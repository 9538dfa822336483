"""AlterClientQuotas, versions 0 and 1: sets and removes limits of users, clients and addresses."""

from collections.abc import Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext, error_of
from tidelog.broker.requests.submission import Decide, refuse, rows_in_slices, submit_each
from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.quota_entities import check_limits, entity_of


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    def respond(refusals: list[TidelogError | None]) -> Outcome:
        return rows_in_slices(broker, map(_row, request.entries, refusals), lambda rows: {"entries": rows})

    decisions = map(_decision, request.entries)
    return submit_each(broker, decisions, respond, validate_only=request.validate_only)


def _row(entry: Any, refusal: TidelogError | None) -> Fields:
    entity = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity]
    return {**error_of(refusal), "entity": entity}


def _decision(entry: Any) -> Decide:
    changes: dict[str, float | None] = {}
    try:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        for each in entry.ops:
            if each.key in changes:
                raise InvalidRequest(f"Duplicate client quota key: {each.key[:100]!r}")
            changes[each.key] = None if each.remove else each.value
        check_limits(entity, changes)
    except TidelogError as refusal:
        return refuse(refusal)

    def decide(image: ClusterImage) -> Sequence[MetadataRecord]:
        return security.change_quota(image.security, entity, changes)

    return decide
