"""CreateAcls, versions 1 to 3: adds access rules. Those that exist already are acknowledged, too."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext, error_of
from tidelog.broker.requests.security import check_authorizer
from tidelog.broker.requests.submission import Decide, rows_in_slices, submit_each
from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import InvalidRequest, TidelogError
from tidelog.security.acls import Acl, new_acl

DECIDED_TOGETHER = 200
CREATED_MAX = 10_000  # rules in one request, as in Kafka


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    checked: list[Acl | TidelogError] = []
    chunks: list[list[Acl]] = []

    def check() -> Iterator[None]:
        for creation in request.creations:
            checked.append(_checked(broker, creation, len(request.creations)))
            yield

    def decisions() -> Iterator[Decide]:
        wanted = [acl for acl in checked if isinstance(acl, Acl)]
        for start in range(0, len(wanted), DECIDED_TOGETHER):
            chunks.append(wanted[start : start + DECIDED_TOGETHER])
            yield partial(_add, chunks[-1])

    def respond(refusals: list[TidelogError | None]) -> Outcome:
        failed = {
            acl: refusal
            for chunk, refusal in zip(chunks, refusals, strict=True)
            for acl in chunk
            if refusal is not None
        }
        results = (error_of(failed.get(each) if isinstance(each, Acl) else each) for each in checked)
        return rows_in_slices(broker, results, lambda rows: {"results": rows})

    return submit_each(broker, decisions(), respond, before=check())


def _add(acls: list[Acl], image: ClusterImage) -> list[MetadataRecord]:
    return security.add_acls(image.security, acls)


def _checked(broker: Broker, creation: Any, count: int) -> Acl | TidelogError:
    try:
        check_authorizer(broker)
        if count > CREATED_MAX:
            raise InvalidRequest(f"one request may create {CREATED_MAX:,} rules, not {count:,}")
        return new_acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except TidelogError as refusal:
        return refusal
