"""Delegation tokens are not offered, and clients are told so. Kafka says the same on a plaintext listener."""

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from .wire import Wire

pytestmark = pytest.mark.interop

FLEXIBLE_FROM = 2  # versions of these requests

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
        wire.send(api, version, **REQUESTS[api])
        # Not parsed: Kafka's other fields are times of -1 ms, which the parser does not take.
        header_bytes = 5 if version >= FLEXIBLE_FROM else 4
        (code,) = struct.unpack_from(">h", wire.receive_frame(), header_bytes)
        assert ErrorCode(code) is ErrorCode.delegation_token_request_not_allowed


@pytest.mark.not_kafka
@pytest.mark.parametrize("api", REQUESTS)
def test_the_answers_can_be_parsed(wire: Wire, api: str) -> None:
    for version in wire.versions()[api]:
        answer = wire.call(api, version, **REQUESTS[api])
        assert answer.error_code is ErrorCode.delegation_token_request_not_allowed
