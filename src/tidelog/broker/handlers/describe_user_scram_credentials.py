"""DescribeUserScramCredentials, version 0: the users with a password, and their mechanisms. Never the
keys.
"""

from collections import Counter
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    known: dict[str, list[Fields]] = {}
    for (mechanism, user), credential in sorted(
        broker.image.security.scram.items(), key=lambda item: item[0]
    ):
        known.setdefault(user, []).append({"mechanism": mechanism, "iterations": credential.iterations})
    times_named = Counter(user.name for user in request.users or ())
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "results": [
            _result(user, times_named[user], known.get(user)) for user in times_named or sorted(known)
        ],
    }


def _result(user: str, times_named: int, infos: list[Fields] | None) -> Fields:
    if times_named > 1:
        return {
            "user": user,
            "error_code": ErrorCode.DUPLICATE_RESOURCE,
            "error_message": f"Cannot describe SCRAM credentials for the same user twice: {user[:100]}",
        }
    if infos is None:
        return {
            "user": user,
            "error_code": ErrorCode.RESOURCE_NOT_FOUND,
            "error_message": f"Attempt to describe a user credential that does not exist: {user[:100]}",
        }
    return {"user": user, "error_code": ErrorCode.NONE, "error_message": None, "credential_infos": infos}
