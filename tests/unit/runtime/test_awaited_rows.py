"""Many large responses that a connection waits for at the same time."""

import asyncio
import socket
from collections.abc import Iterator
from struct import pack, unpack_from
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tidelog.broker.clients import successors
from tidelog.broker.clients.successors import LOOK_ROUND_MS, SUCCESSOR_WITHIN_MS
from tidelog.broker.handlers import metadata
from tidelog.controller.records import BrokerRegistered
from tidelog.protocol import messages
from tidelog.runtime import late_rows
from tidelog.runtime.connection import Connection
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.traffic import Reads, RequestTimes
from unit.broker.fakes import FakeBroker
from unit.runtime.no_logins import NO_LOGINS

METADATA, VERSION = 3, 4
DELETE_TOPICS, DELETE_VERSION = 20, 1
ALL_TOPICS = b"\xff\xff\xff\xff\x00"
PARTITIONS = 50
WAIT_MS = LOOK_ROUND_MS + SUCCESSOR_WITHIN_MS
PIPELINED = 40


class Pipeline:
    """A connection to a broker of two, and what was sent to it."""

    def __init__(self, ours: socket.socket) -> None:
        self.broker = FakeBroker()
        self.broker.create("t", PARTITIONS)
        self.broker.submit(BrokerRegistered(2, UUID(int=2), "other", 9093))
        self.services = self.broker.services
        self.answered: list[int] = []
        self.responses: list[bytes] = []
        self.closed = 0
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=1 << 20, max_unanswered=1000, requests=0, gate=None, ready=True, metered=False,
            times=RequestTimes(), gathering=Gathering(lambda callback: None), reads=Reads(),
            turn=SimpleNamespace(is_spent=lambda now_s: False),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            loop=SimpleNamespace(time=lambda: 0.0, call_soon=self.services.soon),
            broker=self.broker.broker, encode=self.services.offload, compute=self.services.offload,
            admit=lambda connection: "", forget=lambda connection: None, client_memory=None,
        )  # fmt: skip
        messages.load(METADATA, VERSION)
        messages.load(DELETE_TOPICS, DELETE_VERSION)
        self.connection = Connection(cast(Any, server))
        transport = SimpleNamespace(
            get_extra_info=lambda name: ("client", 1) if name == "peername" else ours,
            set_write_buffer_limits=lambda high: None,
            pause_reading=lambda: None, resume_reading=lambda: None, abort=self._abort,
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, transport))
        assert self.connection._sender is not None
        self.connection._sender.close()
        sender = SimpleNamespace(send=self._send, blocked=False, idle=True, close=lambda: None)
        self.connection._sender = cast(Any, sender)

    def _abort(self) -> None:
        self.closed += 1

    def _send(self, parts: list[bytes]) -> None:
        self.answered += [unpack_from(">i", part, 4)[0] for part in parts]
        self.responses += map(bytes, parts)

    def ask(self, count: int) -> None:
        for number in range(count):
            self._take(pack(">hhih", METADATA, VERSION, number, -1) + ALL_TOPICS)

    def delete_topic(self, name: str, number: int) -> None:
        body = pack(">ih", 1, len(name)) + name.encode() + pack(">i", 1000)
        self._take(pack(">hhih", DELETE_TOPICS, DELETE_VERSION, number, -1) + body)

    def _take(self, request: bytes) -> None:
        frame = pack(">i", len(request)) + request
        buffer = self.connection.get_buffer(-1)
        buffer[: len(frame)] = frame
        self.connection.buffer_updated(len(frame))


@pytest.fixture
def pipeline() -> Iterator[Pipeline]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        made = Pipeline(ours)
        yield made
        made.connection.connection_lost(None)


def test_few_are_worked_out_at_a_time(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_rows, "ROWS_MAX", 2 * PARTITIONS)
    monkeypatch.setattr(metadata, "DESCRIBED_PER_SLICE", 10)
    pipeline.ask(PIPELINED)
    assert len(pipeline.connection.slots) == 2
    most = 0
    for _ in range(PIPELINED):
        most = max(most, len(pipeline.connection.slots))
        pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert pipeline.answered == [*range(PIPELINED)]
    assert most == 2


def test_a_large_one_is_the_only_one(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_rows, "ROWS_MAX", PARTITIONS // 2)
    pipeline.ask(2)
    assert len(pipeline.connection.slots) == 1
    pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert (pipeline.answered, len(pipeline.connection.slots)) == ([0], 1)


def test_small_ones_wait_together_during_a_failover(pipeline: Pipeline) -> None:
    pipeline.broker.broker.lost_brokers = {1}
    pipeline.ask(10)
    assert len(pipeline.connection.slots) == 10
    pipeline.services.advance(WAIT_MS + 30)
    assert pipeline.answered == [*range(10)]


def test_a_write_waits_until_earlier_reads_are_described(pipeline: Pipeline) -> None:
    pipeline.ask(2)
    pipeline.delete_topic("t", number=2)
    pipeline.ask(1)
    assert "t" in pipeline.broker.store.image.topics
    assert len(pipeline.connection.slots) == 2
    pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert pipeline.answered[:3] == [0, 1, 2]
    assert "t" not in pipeline.broker.store.image.topics
    assert [b"\x00\x01t" in response for response in pipeline.responses[:2]] == [True, True]
    pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert len(pipeline.answered) == 4
    assert b"\x00\x01t" not in pipeline.responses[3]


def test_a_write_without_reads_before_it_starts_at_once(pipeline: Pipeline) -> None:
    pipeline.delete_topic("t", number=0)
    assert "t" not in pipeline.broker.store.image.topics


@pytest.mark.parametrize("broken", ["_response", "_awaits_successors"])
def test_one_that_fails_after_the_wait_is_answered(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise ValueError("defect")

    monkeypatch.setattr(late_rows, "ROWS_MAX", 1)
    pipeline.ask(1)
    with monkeypatch.context() as patch:
        patch.setattr(metadata if broken == "_response" else successors, broken, fail)
        pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert pipeline.answered == [0]
    assert caplog.text.count("ValueError: defect") == 1
    pipeline.ask(1)
    pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert pipeline.answered == [0, 0]


def test_a_defect_in_a_callback_closes_the_connection(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else would: it is called by a timer, or by whoever has completed a response."""

    def fail(parts: object) -> None:
        raise ValueError("defect")

    pipeline.ask(1)
    cast(Any, pipeline.connection._sender).send = fail
    pipeline.services.advance(LOOK_ROUND_MS + 2)
    assert (pipeline.answered, pipeline.closed) == ([], 1)
    assert caplog.text.count("ValueError: defect") == 1
