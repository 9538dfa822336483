"""Delegation tokens are not offered, and clients are told so. Kafka says the same on a plaintext listener."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from .wire import Wire

pytestmark = pytest.mark.interop

REQUESTS: dict[str, dict[str, Any]] = {
    "create_delegation_token": {
        "owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime": 1000,
    },
    "renew_delegation_token": {"hmac": b"x", "renew_period": 1000},
    "expire_delegation_token": {"hmac": b"x", "expiry_time_period": 1000},
    "describe_delegation_token": {"owners": None},
}  # fmt: skip


@pytest.mark.parametrize("api", REQUESTS)
def test_they_are_refused_in_every_version(wire: Wire, api: str) -> None:
    for version in wire.versions()[api]:
        answer = wire.call(api, version, **REQUESTS[api])
        assert answer.error_code is ErrorCode.delegation_token_request_not_allowed
