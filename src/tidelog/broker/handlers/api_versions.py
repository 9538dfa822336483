"""ApiVersions, versions 0 to 4.

A request in an unknown version gets a version 0 response with UNSUPPORTED_VERSION and the list of APIs, so
that the client can retry in a known version. There is one feature (KIP-584), ``transaction.version``. It
tells clients that each transaction may have its own epoch (KIP-890).
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import messages, produce
from tidelog.protocol.messages import ConstantResponse, Fields

_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_api_keys: list[Fields] = []

TRANSACTION_VERSION = {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2}
SUPPORTED = {"name": "transaction.version", "min_version": 0, "max_version": 2}
ZERO_ALLOWED_FROM = 4  # Older clients fail on a feature whose minimum version is 0 (KIP-1022).


def announce(served: Iterable[tuple[int, int, int]]) -> None:
    """Called once by the registry with (API key, oldest version, newest version)."""
    for key, oldest, newest in sorted(served):
        # Older librdkafka compresses only if Produce version 0 is listed, although it never uses it.
        shown_oldest = 0 if key == produce.API_KEY else oldest
        _api_keys.append({"api_key": key, "min_version": shown_oldest, "max_version": newest})


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    if context.version >= 3 and not (
        _LEGAL_SOFTWARE.fullmatch(request.client_software_name)
        and _LEGAL_SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    return _response(context.version >= ZERO_ALLOWED_FROM)


@cache
def _response(has_feature: bool) -> Fields:
    """Any stranger may ask for it, as often as it likes."""
    return ConstantResponse(
        {
            "error_code": ErrorCode.NONE,
            "api_keys": _api_keys,
            "supported_features": [SUPPORTED] if has_feature else [],
            "finalized_features_epoch": 0,
            "finalized_features": [TRANSACTION_VERSION],
        }
    )


@cache
def _unsupported() -> Fields:
    return ConstantResponse({"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": _api_keys})


def downgrade(correlation_id: int) -> bytes:
    """The response to a request in an unknown version."""
    return messages.encode(messages.API_VERSIONS_KEY, 0, correlation_id, _unsupported())
