"""AlterUserScramCredentials, version 0: sets and deletes passwords of users.

The client sends a salted hash of the password, never the password. All changes of one user are refused if one
of them is.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext, error_of
from tidelog.broker.requests.submission import Decide, rows_in_slices, submit_each
from tidelog.controller import security
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import MetadataRecord
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of_salted_password,
)


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    of_user: dict[str, list[Any]] = {}

    def group() -> Iterator[None]:
        for each in chain(request.deletions, request.upsertions):
            of_user.setdefault(each.name, []).append(each)
            yield

    def decisions() -> Iterator[Decide]:
        for user, changes in of_user.items():
            yield _decision(user, changes)

    def respond(refusals: list[TidelogError | None]) -> Outcome:
        return rows_in_slices(broker, map(_row, of_user, refusals), lambda rows: {"results": rows})

    return submit_each(broker, decisions(), respond, before=group())


def _row(user: str, refusal: TidelogError | None) -> Fields:
    return {"user": user, **error_of(refusal)}


def _decision(user: str, changes: list[Any]) -> Decide:
    def decide(image: ClusterImage) -> list[MetadataRecord]:
        if not user:
            raise TidelogError("Username must not be empty", ErrorCode.UNACCEPTABLE_CREDENTIAL)
        if max(Counter(each.mechanism for each in changes).values()) > 1:
            raise TidelogError(
                "A user credential cannot be altered twice in the same request", ErrorCode.DUPLICATE_RESOURCE
            )
        return [record for each in changes for record in _records(image, user, each)]

    return decide


def _records(image: ClusterImage, user: str, change: Any) -> list[MetadataRecord]:
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise TidelogError("Unknown SCRAM mechanism", ErrorCode.UNSUPPORTED_SASL_MECHANISM) from None
    if not hasattr(change, "salted_password"):
        return security.remove_credential(image.security, user, mechanism)
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        few = "few" if change.iterations < ITERATIONS_MIN else "many"
        raise TidelogError(f"Too {few} iterations", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    if not change.salt or not change.salted_password:
        raise TidelogError("A password needs a salt and a hash", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    credential = credential_of_salted_password(
        mechanism, change.salted_password, change.salt, change.iterations
    )
    return security.change_credential(user, mechanism, credential)
