"""Limits that keep one client from spoiling it for the others: connections, silence, slow reading."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker

from . import calls
from .records import batch, values
from .wire import ConnectionEnded, Wire, request_bytes

pytestmark = pytest.mark.interop


def resident_bytes(broker: Broker) -> int:
    """The memory the broker's process has in use."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def connected(broker: Broker, port: int) -> bool:
    """Whether the broker has a connection with this port of a client."""
    ours = int(broker.bootstrap.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = [(row[1].rpartition(":")[2], row[2].rpartition(":")[2]) for row in rows if row[3] == "01"]
    return (f"{ours:04X}", f"{port:04X}") in ends


def answered(wire: Wire) -> bool:
    try:
        return bool(wire.versions())
    except ConnectionEnded:
        return False


@pytest.mark.tidelog_settings({"connections.max.idle.ms": 1000})
class TestIdle:
    def test_a_silent_client_is_let_go(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            assert wire.wait_until_closed() == b""

    def test_half_a_frame_is_silence_too(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            wire.send_bytes(struct.pack(">i", 100) + b"\x00" * 10)
            assert wire.wait_until_closed() == b""

    @pytest.mark.not_kafka
    @pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
    def test_a_client_that_never_reads_its_responses_is_let_go(self, broker: Broker) -> None:
        """Its connection is not idle: it has responses to take. Those of a silent reader stay for ever."""
        with Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as lazy:
            calls.create_topic(wire, "t", configs={"max_message_bytes": 2_000_000})
            for _ in range(10):
                calls.produce(wire, "t", bytes(batch(b"x" * 1_000_000)))
            lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ask_without_reading(lazy, "t", times=10)
            port = lazy.socket.getsockname()[1]
            assert connected(broker, port)
            calls.eventually(lambda: not connected(broker, port), "the broker closes it")

    @pytest.mark.not_kafka  # which lets it go and leaves it to the client to connect again
    def test_a_client_that_waits_for_its_answer_is_not_silent(self, broker: Broker) -> None:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t")
            assert calls.fetch(wire, "t", 0, max_wait=3000).error_code is ErrorCode.none


class TestConnections:
    @pytest.mark.tidelog_settings({"max.connections": 5})
    def test_no_more_than_allowed(self, broker: Broker) -> None:
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(5)]
            assert all(answered(wire) for wire in wires)
            extra = stack.enter_context(Wire(broker.bootstrap, timeout_s=2))
            with pytest.raises((TimeoutError, ConnectionEnded)):
                extra.versions()
            assert all(answered(wire) for wire in wires)
        with Wire(broker.bootstrap) as wire:
            assert answered(wire)

    @pytest.mark.tidelog_settings({"max.connections.per.ip": 3})
    def test_no_more_than_allowed_from_one_address(self, broker: Broker) -> None:
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(3)]
            assert all(answered(wire) for wire in wires)
            assert not room_for_one_more(broker)
            assert all(answered(wire) for wire in wires)
            wires[0].socket.close()
            calls.eventually(lambda: room_for_one_more(broker), "a closed connection makes room for another")


@pytest.mark.not_kafka
class TestOpenFiles:
    def test_connections_leave_files_for_the_logs(self, tmp_path: Path) -> None:
        """More connections than the process has descriptors: the writes of those that came first go on."""
        broker = Broker(tmp_path, prefix=["prlimit", "--nofile=600:600"])
        broker.start()
        try:
            with ExitStack() as stack:
                first = stack.enter_context(Wire(broker.bootstrap))
                assert answered(first)
                for _ in range(700):
                    stack.enter_context(Wire(broker.bootstrap))
                refused = "the limit of open files leaves room for"
                calls.eventually(lambda: refused in broker.log_text(), "it refuses some")
                calls.create_topic(first, "t", 60)
                for partition in range(60):
                    answer = calls.produce(first, "t", bytes(batch(b"v")), partition=partition)
                    assert answer.error_code is ErrorCode.none
            calls.eventually(lambda: room_for_one_more(broker), "closed connections make room")
            assert "Too many open files" not in broker.log_text()
        finally:
            broker.kill()


def room_for_one_more(broker: Broker) -> bool:
    with Wire(broker.bootstrap) as wire:
        return answered(wire)


class TestMemory:
    """A client that does not read, or sends without end, costs the broker a bounded amount of memory."""

    @pytest.fixture
    def topic(self, broker: Broker) -> Iterator[str]:
        with Wire(broker.bootstrap) as wire:
            calls.create_topic(wire, "t", configs={"max_message_bytes": 2_000_000})
            for _ in range(20):
                calls.produce(wire, "t", bytes(batch(b"x" * 1_000_000)))
        yield "t"

    @pytest.mark.not_kafka
    def test_slow_readers(self, broker: Broker, topic: str) -> None:
        before = resident_bytes(broker)
        with ExitStack() as stack:
            for _ in range(10):
                lazy = stack.enter_context(Wire(broker.bootstrap))
                lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                ask_without_reading(lazy, topic, times=30)
            # 10 clients asked for 6 GB. The broker is awake, and keeps next to none of it in memory.
            with Wire(broker.bootstrap) as wire:
                assert len(values(calls.fetch(wire, topic, 0, max_bytes=100).records)) == 1
            assert resident_bytes(broker) - before < 150_000_000

    @pytest.mark.not_kafka
    def test_a_flood_of_requests_whose_answers_nobody_reads(self, broker: Broker, topic: str) -> None:
        before = resident_bytes(broker)
        payload = request_bytes("metadata", 12, 1, "flood", {"topics": None})
        frames = (struct.pack(">i", len(payload)) + payload) * 1000
        with Wire(broker.bootstrap, timeout_s=3) as flood, pytest.raises(TimeoutError):
            # At some point the broker stops reading, and the send blocks: this is the wanted back-pressure.
            for _ in range(10_000):
                flood.send_bytes(frames)
        with Wire(broker.bootstrap) as wire:
            assert answered(wire)
        assert resident_bytes(broker) - before < 100_000_000

    @pytest.mark.not_kafka
    def test_large_frames_that_never_end(self, broker: Broker, topic: str) -> None:
        """Each claims much, up to what is allowed, and sends little: memory is for what has arrived.

        And a claim takes nothing from others: their requests, large ones too, are served meanwhile.
        """
        before = resident_bytes(broker)
        with ExitStack() as stack:
            for claimed in [104_857_600] * 20 + [10_000_000] * 20 + [1_000_000] * 20:
                wire = stack.enter_context(Wire(broker.bootstrap))
                wire.send_bytes(struct.pack(">i", claimed) + b"\x00" * 1000)
            with Wire(broker.bootstrap) as wire:
                assert calls.produce(wire, topic, bytes(batch(b"x" * 1_000_000))).error_code is ErrorCode.none
            assert resident_bytes(broker) - before < 100_000_000


def ask_without_reading(wire: Wire, topic: str, times: int) -> None:
    """Send fetches for the whole topic until all are sent or the broker stops reading."""
    part = calls.fetch_partition(0, 0, partition_max_bytes=1 << 30)
    request = calls.fetch_request([{"topic": topic, "partitions": [part]}], max_bytes=1 << 30)
    wire.socket.settimeout(0.2)
    try:
        for _ in range(times):
            wire.send("fetch", 12, **request)
    except TimeoutError:
        pass
