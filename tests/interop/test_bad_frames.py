"""Bytes that are no requests: the connection ends, and the broker serves everybody else as before."""

import random
import socket
import struct
from collections.abc import Iterator

import pytest
from kio.schema.index import schema_name_map

from tidelog.testing import Broker

from .requests import ALL
from .wire import ConnectionEnded, Wire, request_bytes

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def others_are_served_as_before(bootstrap: str) -> Iterator[None]:
    """A client that was connected all along, and a new one, notice nothing."""
    with Wire(bootstrap) as before:
        assert before.versions()
        yield
        assert before.call("metadata", 12, topics=[]).brokers
        with Wire(bootstrap) as after:
            assert after.call("metadata", 12, topics=[]).brokers


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 500_000_000, 0, 1, 3, 7])
def test_impossible_length(wire: Wire, length: int) -> None:
    wire.send_bytes(struct.pack(">i", length) + b"\x00" * 16)
    assert wire.wait_until_closed() == b""


def test_garbage(wire: Wire) -> None:
    wire.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert wire.wait_until_closed() == b""


@pytest.mark.not_kafka
def test_each_bad_connection_leaves_one_line_in_the_log(shared_broker: Broker) -> None:
    bad = {
        b"GET / HTTP/1.1\r\n\r\n": "an HTTP request",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc": "a TLS handshake",
        struct.pack(">i", -5): "a frame of -5 bytes",
        struct.pack(">ihhih", 10, 999, 0, 1, -1): "UNSUPPORTED_VERSION",
    }
    lines_before = shared_broker.log_text().splitlines()
    peers = []
    for data in bad:
        with Wire(shared_broker.bootstrap) as wire:
            peers.append(f"127.0.0.1:{wire.socket.getsockname()[1]}")
            wire.send_bytes(data)
            wire.wait_until_closed()
    lines = shared_broker.log_text().splitlines()[len(lines_before) :]
    assert len(lines) == len(bad)
    told = zip(peers, bad.values(), lines, strict=True)
    assert all(peer in line and reason in line for peer, reason, line in told)


def test_random_garbage(bootstrap: str) -> None:
    chance = random.Random(20_240_601)
    for _ in range(50):
        with Wire(bootstrap) as wire:
            payload = b"\x00" + chance.randbytes(chance.randrange(7, 299))
            wire.send_frame(payload)  # a small api key, so that some get past the first check
            assert ends_or_answers(wire, payload[4:8]), payload


def ends_or_answers(wire: Wire, correlation_id: bytes) -> bool:
    """Whether the connection ends, or what comes is the response to this request."""
    try:
        return wire.receive_frame()[:4] == correlation_id
    except ConnectionEnded:
        return True


def test_a_frame_that_never_ends(bootstrap: str) -> None:
    """The client goes away in the middle of its frame: half a request is not answered."""
    with Wire(bootstrap) as wire:
        wire.send_bytes(struct.pack(">i", 1000) + b"\x00" * 500)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.wait_until_closed() == b""


def test_a_client_that_only_reads_any_more_is_let_go(bootstrap: str, topic: str) -> None:
    """It closed its half of the connection; answered or not, the other half must not stay open forever."""
    for api in ("delete_topics", "fetch", "metadata"):
        with Wire(bootstrap) as wire:
            version = min(wire.versions()[api].stop - 1, newest_known(api))
            values = ALL[api].values(wire, topic, version)
            correlation_id = wire.send(api, version, **values)
            wire.socket.shutdown(socket.SHUT_WR)
            left = wire.wait_until_closed()
            assert not left or left[4:8] == struct.pack(">i", correlation_id), api


def test_a_frame_in_pieces_is_still_a_frame(wire: Wire) -> None:
    payload = request_bytes("metadata", 12, 1, "slow", {"topics": []})
    for byte in struct.pack(">i", len(payload)) + payload:
        wire.send_bytes(bytes([byte]))
    assert wire.receive("metadata", 12, 1).brokers


def test_many_frames_in_one_piece_are_still_many_frames(wire: Wire) -> None:
    frames = b""
    for number in range(1, 51):
        payload = request_bytes("metadata", 12, number, "fast", {"topics": []})
        frames += struct.pack(">i", len(payload)) + payload
    wire.send_bytes(frames)
    for number in range(1, 51):
        assert wire.receive("metadata", 12, number).brokers


@pytest.mark.parametrize("api", sorted(ALL))
def test_a_request_cut_short(api: str, wire: Wire, topic: str, bootstrap: str) -> None:
    """The frame is whole but its content ends too early, wherever that is."""
    version = wire.versions()[api].stop - 1
    payload = request_bytes(
        api, min(version, newest_known(api)), 1, "cut", ALL[api].values(wire, topic, version)
    )
    for length in sorted({0, 1, 2, 4, 7, 8, 9, len(payload) // 2, len(payload) - 1}):
        with Wire(bootstrap) as broken:
            broken.send_frame(payload[:length])
            # An API may still find a meaning in it (a missing end of tagged fields, say), but must answer it.
            assert ends_or_answers(broken, struct.pack(">i", 1)), (api, length)


def newest_known(api: str) -> int:
    return max(schema_name_map[api])


# A flipped bit in a number of partitions would be a wish for millions of them: refused too, but not here.
@pytest.mark.parametrize("api", sorted(ALL.keys() - {"create_topics", "create_partitions"}))
def test_a_request_with_flipped_bits(api: str, wire: Wire, topic: str, bootstrap: str) -> None:
    """Whatever the bits say now; the answer, if any, is left unread. The request as it was is answered."""
    version = min(wire.versions()[api].stop - 1, newest_known(api))
    payload = request_bytes(api, version, 1, "bits", ALL[api].values(wire, topic, version))
    chance = random.Random(f"bits of {api}")
    for _ in range(60):
        broken = bytearray(payload)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(8, len(broken))] ^= 1 << chance.randrange(8)
        with Wire(bootstrap) as other:
            other.send_frame(bytes(broken))
    with Wire(bootstrap) as whole:
        whole.send_frame(payload)
        assert whole.receive_frame()[:4] == struct.pack(">i", 1)


@pytest.mark.parametrize("count", [2**31 - 1, 2**20])
def test_an_array_that_claims_to_be_huge(wire: Wire, count: int) -> None:
    """A count is only a claim: memory is for what is really there."""
    header = struct.pack(">hhih", 3, 8, 1, -1)  # Metadata version 8: arrays with a plain 32-bit count
    wire.send_frame(header + struct.pack(">i", count) + b"\x00" * 10)
    assert wire.wait_until_closed() == b""


def test_a_string_that_claims_to_be_longer_than_the_frame(wire: Wire) -> None:
    header = struct.pack(">hhih", 3, 8, 1, -1)
    wire.send_frame(header + struct.pack(">ih", 1, 32_000) + b"short")
    assert wire.wait_until_closed() == b""


@pytest.mark.not_kafka
def test_nothing_of_this_surprised_the_broker(shared_broker: Broker) -> None:
    """The last test of this file: a traceback in the log is a case nobody thought of."""
    assert "Traceback" not in shared_broker.log_text()
