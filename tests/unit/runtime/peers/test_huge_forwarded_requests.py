"""Huge requests for the active controller are decoded in a thread, at the client's broker and there."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from interop.wire import API_KEYS, Wire, request_bytes
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol import envelope, messages
from tidelog.protocol.wire import skip_tags
from tidelog.runtime.handling import HEADER
from tidelog.runtime.large_requests import HUGE_AT_ONCE, HUGE_BYTES
from tidelog.runtime.peers import envelopes
from tidelog.runtime.peers.envelopes import Envelopes
from unit.broker.fakes import FakeBroker
from unit.runtime.peers.loopback import LoopbackCluster, LoopbackNode, on_loop, until

REASSIGNMENTS = "list_partition_reassignments"
TOPIC = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
HUGE = {"topics": [{**TOPIC, "configs": [{"name": "no", "value": "x" * 30_000}] * 10}], "timeout": 20_000}
HUGE_READ = {"topics": [{"name": "t" * 200, "partition_indexes": [*range(100)]}] * 500, "timeout": 20_000}


class Threads:
    """Where requests were decoded: on the loop, or elsewhere."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_huge: list[str] = []
        decode = messages.decode

        def noted(
            api_key: int, version: int, frame: memoryview, position: int, *more: Any, **named: Any
        ) -> Any:
            if len(frame) >= HUGE_BYTES:
                self.of_huge.append(threading.current_thread().name.split("_")[0])
            return decode(api_key, version, frame, position, *more, **named)

        monkeypatch.setattr(messages, "decode", noted)


class Jobs:
    """Computing threads whose work is done when the test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def compute(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                result = error
            done(result)

        self.due.append(run)

    def run(self) -> None:
        due, self.due = self.due, []
        for job in due:
            job()


async def on_wire(node: LoopbackNode, ask: Callable[[Wire], Any]) -> Any:
    def work() -> Any:
        with Wire(node.bootstrap) as wire:
            return ask(wire)

    return await asyncio.to_thread(work)


@on_loop
async def test_both_brokers_decode_it_in_a_thread() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        threads = Threads(monkeypatch)
        async with LoopbackCluster(2, controller=1) as (_, two):
            answer = await on_wire(two, lambda wire: wire.call("create_topics", 4, **HUGE))
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_CONFIG]
            assert threads.of_huge == ["compute", "compute"]


@on_loop
async def test_who_becomes_the_controller_meanwhile_does_not_decode_it_again() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        threads = Threads(monkeypatch)
        async with LoopbackCluster(2, controller=1) as (one, two):
            one.cluster.appoint(-1)
            call = on_wire(two, lambda wire: wire.call("create_topics", 4, **HUGE))
            asked = asyncio.create_task(call)
            await until(lambda: threads.of_huge)
            one.cluster.appoint(2)
            answer = await asked
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_CONFIG]
            assert threads.of_huge == ["compute"]


@on_loop
async def test_no_controller_in_time() -> None:
    async with LoopbackCluster(2, controller=1) as (one, two):
        one.cluster.appoint(-1)
        answer = await on_wire(two, lambda wire: wire.call("create_topics", 4, **{**HUGE, "timeout": 50}))
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.REQUEST_TIMED_OUT]


@on_loop
async def test_later_requests_of_the_connection_do_not_overtake_it() -> None:
    async with LoopbackCluster(2, controller=1) as (one, two):
        jobs = Jobs()
        opened: Any = one.relay.open
        opened.__self__.compute = jobs.compute

        def ask(wire: Wire) -> None:
            first = wire.send(REASSIGNMENTS, 0, **HUGE_READ)
            second = wire.send(REASSIGNMENTS, 0, topics=None, timeout=20_000)
            wire.receive(REASSIGNMENTS, 0, first)
            wire.receive(REASSIGNMENTS, 0, second)

        asked = asyncio.create_task(on_wire(two, ask))
        await until(lambda: jobs.due)
        await until(lambda: any(each._held_back is not None for each in two.server.connections))
        assert (one.server.requests, two.server.requests) == (1, 1)
        jobs.run()
        await until(lambda: jobs.due or asked.done())  # The response is encoded.
        jobs.run()
        await asked
        assert (one.server.requests, two.server.requests) == (2, 2)


@on_loop
async def test_requests_of_other_clients_do_not_wait_for_it() -> None:
    async with LoopbackCluster(2, controller=1) as (one, two):
        jobs = Jobs()
        opened: Any = one.relay.open
        opened.__self__.compute = jobs.compute
        asked = asyncio.create_task(on_wire(two, lambda wire: wire.call("create_topics", 4, **HUGE)))
        await until(lambda: jobs.due)
        await on_wire(two, lambda wire: wire.call(REASSIGNMENTS, 0, topics=None, timeout=20_000))
        assert not asked.done()
        jobs.run()
        await asked


@on_loop
async def test_bytes_that_do_not_fit_close_the_connection() -> None:
    async with LoopbackCluster(2, controller=1) as (one, two):

        def ask(wire: Wire) -> bytes:
            start = request_bytes("create_topics", 4, 1, "wire", HUGE)[: HUGE_BYTES + 100]
            wire.socket.sendall(len(start).to_bytes(4, "big") + start)
            return bytes(wire.socket.recv(1))

        assert await on_wire(two, ask) == b""
        assert one.server.requests == 0


class Node:
    """The connection of another node, and what it was answered."""

    def __init__(self) -> None:
        self.holds = 0
        self.errors: list[ErrorCode] = []

    def hold(self) -> None:
        self.holds += 1

    def resume(self) -> None:
        self.holds -= 1

    def await_rows(self, count: int) -> None: ...

    def rows_made(self, count: int) -> None: ...

    def close(self, reason: str) -> None: ...

    def replied(self, parts: Any) -> None:
        (frame,) = parts
        self.errors.append(envelope.decode_response(memoryview(frame)[4:]).error)


class AtTheController:
    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.jobs = Jobs()
        self.active = True
        self.node = Node()
        self.envelopes = Envelopes(self.broker.broker, lambda: self.active, self.jobs.compute)

    def open(self, request: bytes) -> Any:
        frame = memoryview(envelope.encode_request(7, "node", memoryview(request), ("User", "a"), "host:1"))[
            4:
        ]
        *_, client_size = HEADER.unpack_from(frame, 0)
        context = RequestContext(envelope.API_KEY, envelope.VERSION, 7, "node", "peer")
        position = skip_tags(frame, 10 + client_size)
        return self.envelopes.open(frame, position, context, self.node.replied, self.node)

    def settle(self) -> None:
        self.broker.services.settle()
        while self.jobs.due:
            self.jobs.run()
            self.broker.services.settle()


HUGE_BODY = request_bytes("create_topics", 4, 1, "wire", HUGE)
SMALL_BODY = request_bytes(REASSIGNMENTS, 0, 1, "wire", {"topics": None, "timeout": 1000})


@pytest.fixture
def at() -> AtTheController:
    messages.load(API_KEYS["create_topics"], 4)
    return AtTheController()


def test_few_are_decoded_at_a_time(at: AtTheController) -> None:
    for _ in range(HUGE_AT_ONCE + 2):
        at.open(HUGE_BODY)
    at.broker.services.settle()
    assert len(at.jobs.due) == HUGE_AT_ONCE
    at.settle()
    assert at.node.errors == [ErrorCode.NONE] * (HUGE_AT_ONCE + 2)
    assert at.envelopes.pending_bytes == 0


def test_the_connection_is_held_while_too_many_bytes_wait(
    at: AtTheController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelopes, "PENDING_BYTES_MAX", 2 * len(HUGE_BODY))
    for holds in (0, 0, 1):
        at.open(HUGE_BODY)
        assert at.node.holds == holds
    at.settle()
    assert at.node.holds == 0


def test_a_controller_that_is_no_longer_active_refuses_it(at: AtTheController) -> None:
    at.open(HUGE_BODY)
    at.broker.services.settle()
    at.active = False
    at.settle()
    assert at.node.errors == [ErrorCode.NOT_CONTROLLER]


def test_one_whose_connection_is_lost_is_not_decoded(at: AtTheController) -> None:
    """Its broker sends it again."""
    pending = at.open(HUGE_BODY)
    pending.cancel()
    at.broker.services.settle()
    assert (at.jobs.due, at.envelopes.pending_bytes) == ([], 0)


def test_a_node_that_stops_leaves_it_to_the_next_controller(at: AtTheController) -> None:
    at.open(HUGE_BODY).finish_now()
    at.settle()
    assert at.node.errors == [ErrorCode.NOT_CONTROLLER]


def test_one_that_has_begun_is_completed(at: AtTheController) -> None:
    pending = at.open(HUGE_BODY)
    at.broker.services.settle()
    pending.finish_now()
    at.settle()
    assert at.node.errors == [ErrorCode.NONE]


def test_one_that_cannot_be_decoded_is_refused(at: AtTheController) -> None:
    at.open(HUGE_BODY[: HUGE_BYTES + 100])
    at.settle()
    assert at.node.errors == [ErrorCode.INVALID_REQUEST]


def test_small_ones_are_decoded_at_once(at: AtTheController) -> None:
    assert at.open(SMALL_BODY) is None
    assert not at.jobs.due
