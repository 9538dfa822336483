"""The throttle time in a response that is encoded already: of every API in every version."""

from datetime import timedelta
from typing import Any

import pytest

from interop.wire import parse_response
from tidelog.broker.registry import SERVED
from tidelog.errors import ErrorCode
from tidelog.protocol import fetch, messages, produce
from tidelog.protocol.fetch import FetchResponseBuilder
from tidelog.protocol.produce import NodeAddress, ProducePartitionResponse
from tidelog.protocol.throttle_time import throttle_ms_of, with_throttle_time
from unit.versions import tried

WAIT_MS = 123_456
PLAIN = tried(
    {
        api.key: range(api.oldest, api.newest + 1)
        for api in SERVED.values()
        if api.key not in (produce.API_KEY, fetch.API_KEY)
    }
)


def parsed(frame: bytes, api_key: int, version: int) -> Any:
    return parse_response(bytes(frame[4:]), messages.name_of(api_key), version, 77)


@pytest.mark.parametrize(("api_key", "version"), PLAIN)
def test_plain_responses(api_key: int, version: int) -> None:
    frame = messages.encode(api_key, version, 77, {})
    (changed,) = with_throttle_time([frame], api_key, version, WAIT_MS)
    before, after = parsed(frame, api_key, version), parsed(changed, api_key, version)
    assert int.from_bytes(changed[:4], "big") == len(changed) - 4
    if not hasattr(before, "throttle_time"):
        assert bytes(changed) == frame
        return
    assert after.throttle_time == timedelta(milliseconds=WAIT_MS)
    for name in before.__slots__:
        if name != "throttle_time":
            assert getattr(after, name) == getattr(before, name)
    assert throttle_ms_of(changed, api_key, version) in (WAIT_MS, 0)


@pytest.mark.parametrize("version", range(produce.VERSIONS[0], 13))
@pytest.mark.parametrize("nodes", [[], [NodeAddress(3, "host", 9092, None)]])
def test_produce(version: int, nodes: list[NodeAddress]) -> None:
    refused = ProducePartitionResponse(5, ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(3, 1))
    frame = produce.encode(version, 77, [("t", [refused])], nodes)
    (changed,) = with_throttle_time([frame], produce.API_KEY, version, WAIT_MS)
    before, after = (parsed(each, produce.API_KEY, version) for each in (frame, changed))
    assert after.throttle_time == timedelta(milliseconds=WAIT_MS)
    assert after.responses == before.responses
    if version >= 10:
        assert after.node_endpoints == before.node_endpoints
        assert len(after.node_endpoints) == len(nodes)


@pytest.mark.parametrize("version", range(fetch.VERSIONS[0], 13))
def test_fetch(version: int) -> None:
    builder = FetchResponseBuilder(version, 77, ErrorCode.NONE, 9, 0)
    parts: Any = builder.finish()
    changed = with_throttle_time(parts, fetch.API_KEY, version, WAIT_MS)
    found = parsed(b"".join(changed), fetch.API_KEY, version)
    assert found.throttle_time == timedelta(milliseconds=WAIT_MS)


def test_what_a_response_says_already() -> None:
    frame = messages.encode(19, 7, 77, {"topics": [], "throttle_time": WAIT_MS})
    assert throttle_ms_of(frame, 19, 7) == WAIT_MS


def test_no_response() -> None:
    assert with_throttle_time((), 0, 9, WAIT_MS) == ()
