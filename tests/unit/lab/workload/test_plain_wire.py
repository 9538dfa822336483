"""The plain client's batch is one that a broker takes."""

import struct

from tidelog.lab.workload import plain_wire
from tidelog.protocol import batch as batches


def test_a_batch_is_a_valid_one() -> None:
    made = plain_wire.batch(b"plain/300/" + bytes(200), 1_780_000_000_000)
    header = batches.parse_header(memoryview(bytearray(made)))
    assert (header.producer_id, header.last_offset_delta, header.length + 12) == (-1, 0, len(made))
    assert header.max_timestamp == 1_780_000_000_000


def test_error_and_offset_of_a_response() -> None:
    body = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iihqqq", 1, 0, 6, 42, -1, 0)
    assert plain_wire.produced(memoryview(body)) == (6, 42)
