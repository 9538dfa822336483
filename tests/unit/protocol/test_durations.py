"""Durations that no Python object can hold: Kafka's are any 64-bit number of milliseconds."""

import struct

import pytest

from interop.wire import API_KEYS, request_bytes
from tidelog.protocol import messages
from tidelog.protocol.extents import DURATION_MAX_MS
from tidelog.runtime import handling

MARK_MS = 0x0123456789AB


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("told", "understood"),
    [
        (2**63 - 1, DURATION_MAX_MS),
        (DURATION_MAX_MS + 1, DURATION_MAX_MS),
        (-(2**63), -DURATION_MAX_MS),
        (-1, -1),
        (86_400_000, 86_400_000),
    ],
)
def test_offset_commit_with_any_retention(version: int, told: int, understood: int) -> None:
    values = {"group_id": "g", "retention_time": MARK_MS, "topics": [{"name": "t", "partitions": []}]}
    frame = request_bytes("offset_commit", version, 1, "c", values)
    mark = struct.pack(">q", MARK_MS)
    assert frame.count(mark) == 1
    request = memoryview(frame.replace(mark, struct.pack(">q", told)))
    _, position = handling.read_header(request, "peer")
    decoded = messages.decode(API_KEYS["offset_commit"], version, request, position)
    assert messages.milliseconds(decoded.retention_time) == understood
    assert [topic.name for topic in decoded.topics] == ["t"]
