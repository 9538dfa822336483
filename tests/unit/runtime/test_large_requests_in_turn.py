"""Large requests are decoded in turn, and few very large ones are handled at a time."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.runtime import handling, turn_budget
from tidelog.runtime.connection import Connection
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.large_requests import HUGE_AT_ONCE, HUGE_BYTES, LARGE_BYTES, LargeRequests
from tidelog.runtime.traffic import Reads, RequestTimes
from tidelog.runtime.turn_budget import TURN_S, TurnBudget
from unit.runtime.no_logins import NO_LOGINS

METADATA, VERSION = 3, 1


class Turns:
    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.due.append(callback)

    def run(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def test_large_requests_wait_for_their_turn_only() -> None:
    turns, taken = Turns(), list[int]()
    large = LargeRequests(cast(Any, turns))
    for number in range(10):
        large.wait(LARGE_BYTES, lambda number=number: taken.append(number))  # type: ignore[misc]
    assert not taken
    turns.run()
    assert taken == [*range(10)]


def test_huge_requests_wait_until_others_are_done() -> None:
    turns, taken = Turns(), list[int]()
    large = LargeRequests(cast(Any, turns))
    for number in range(HUGE_AT_ONCE + 2):
        large.wait(HUGE_BYTES, lambda number=number: taken.append(number))  # type: ignore[misc]
    turns.run()
    assert taken == [*range(HUGE_AT_ONCE)]
    large.done()
    turns.run()
    assert taken == [*range(HUGE_AT_ONCE + 1)]


class OneConnection:
    """A connection, and what was handled of it."""

    def __init__(self, ours: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns, self.bytes, self.handled = Turns(), 0, list[int]()
        self.large = LargeRequests(cast(Any, self.turns))
        self.soon: list[Callable[[], None]] = []  # what the next turn of the loop begins with
        loop = SimpleNamespace(time=lambda: 0.0, call_soon=self.soon.append)
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=1 << 24, max_unanswered=100, requests=0, gate=None, ready=True, metered=False,
            times=RequestTimes(), gathering=Gathering(lambda callback: None), reads=Reads(),
            loop=loop, turn=TurnBudget(cast(Any, loop)),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            broker=SimpleNamespace(services=None), encode=None, compute=None, large=self.large,
            admit=lambda connection: "", forget=lambda connection: None,
            client_memory=SimpleNamespace(
                hold=self._hold, release=self._release, readable_bytes=lambda size: size
            ),
        )  # fmt: skip
        monkeypatch.setattr(handling, "handle_plain", self._handle)
        self.connection = Connection(cast(Any, server))
        transport = SimpleNamespace(
            get_extra_info=lambda name: ("client", 1) if name == "peername" else ours,
            set_write_buffer_limits=lambda high: None,
            pause_reading=lambda: None, resume_reading=lambda: None, abort=lambda: None,
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, transport))

    def next_turn(self) -> None:
        while self.soon:
            self.soon.pop()()
        self.turns.run()

    def send(self, size: int, correlation_id: int) -> None:
        self._send(pack(">ihhih", size, METADATA, VERSION, correlation_id, -1) + bytes(size - 10))

    def send_together(self, *correlation_ids: int) -> None:
        self._send(b"".join(pack(">ihhih", 10, METADATA, VERSION, each, -1) for each in correlation_ids))

    def _send(self, frame: bytes) -> None:
        while frame:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(frame), 4096)
            buffer[:count], frame = frame[:count], frame[count:]
            self.connection.buffer_updated(count)

    def _handle(self, broker: Any, request: Any, at: int, context: Any, *rest: Any) -> None:
        """Every request is handled in slices."""
        self.handled.append(context.correlation_id)
        self.connection.hold()

    def _hold(self, count: int, connection: Connection) -> bool:
        self.bytes += count
        return True

    def _release(self, count: int, connection: Connection) -> None:
        self.bytes -= count


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[OneConnection]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        made = OneConnection(ours, monkeypatch)
        yield made
        made.connection.connection_lost(None)


@pytest.fixture
def slow(one: OneConnection, monkeypatch: pytest.MonkeyPatch) -> OneConnection:
    """Each request takes as long as those of one connection may take together."""
    clock = [100.0]

    def handle(broker: Any, request: Any, at: int, context: Any, *rest: Any) -> None:
        one.handled.append(context.correlation_id)
        clock[0] += turn_budget.PLAIN_S

    monkeypatch.setattr(turn_budget, "monotonic", lambda: clock[0])
    monkeypatch.setattr(handling, "handle_plain", handle)
    return one


def test_small_requests_that_take_long_together_are_handled_in_turn(slow: OneConnection) -> None:
    """Of a thousand in one buffer, others had to wait for all."""
    slow.send_together(*range(5))
    handled = []
    for _ in range(5):
        handled.append([*slow.handled])
        slow.next_turn()
    assert handled == [[0], [0, 1, 2], [0, 1, 2, 3, 4], [*range(5)], [*range(5)]]


def test_the_next_ones_are_handled_at_once(slow: OneConnection) -> None:
    slow.send(20, 1)
    slow.send(20, 2)
    assert slow.handled == [1, 2]


def test_many_connections_that_are_ready_at_once_share_a_turn(
    one: OneConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 50 members of a group that joins held the loop together, each for less than a millisecond."""
    clock, handled, others = [100.0], list[int](), 10

    def handle(broker: Any, request: Any, at: int, context: Any, *rest: Any) -> None:
        handled.append(context.correlation_id)
        clock[0] += TURN_S / 3

    monkeypatch.setattr(turn_budget, "monotonic", lambda: clock[0])
    monkeypatch.setattr(handling, "handle_plain", handle)
    server = one.connection._server
    connections = [Connection(server) for _ in range(others)]

    def send(number: int, correlation_id: int) -> None:
        frame = pack(">ihhih", 10, METADATA, VERSION, correlation_id, -1)
        connections[number].get_buffer(-1)[: len(frame)] = frame
        connections[number].buffer_updated(len(frame))

    for number in range(others):
        send(number, number)
    assert handled == [0, 1, 2]
    send(0, 10)
    assert handled == [0, 1, 2], "its second request, in the same turn"
    (over,) = one.soon
    over()
    send(1, 11)
    assert handled == [0, 1, 2, 11], "the next turn"
    one.turns.run()
    assert handled == [0, 1, 2, 11, 3, 4, 5, 6, 7, 8, 9, 10]
    for each in connections:
        each.connection_lost(None)


@pytest.mark.parametrize("size", [2 * LARGE_BYTES, 2 * HUGE_BYTES])
def test_a_large_request_is_handled_in_its_turn(one: OneConnection, size: int) -> None:
    one.send(size, 1)
    assert (one.handled, one.bytes > 0) == ([], True)
    one.turns.run()
    assert (one.handled, one.bytes > 0) == ([1], True)
    one.connection.resume()
    assert one.bytes == 0


def test_quotas_count_a_request_that_has_waited(one: OneConnection) -> None:
    counted: list[int] = []

    def taken(slot: object, request: memoryview, spent_s: float) -> int:
        counted.append(len(request))
        return 0

    server = cast(Any, one.connection)._server
    server.metered = True
    meter = SimpleNamespace(taken=taken, answered=lambda slot, parts: (parts, 0))
    server.metering = SimpleNamespace(meter_of=lambda *_: meter)
    one.send(LARGE_BYTES, 1)
    assert not counted
    one.turns.run()
    assert (one.handled, counted) == ([1], [LARGE_BYTES])


def test_a_client_that_goes_lets_the_next_one_in(one: OneConnection) -> None:
    for _ in range(HUGE_AT_ONCE - 1):
        one.large.wait(HUGE_BYTES, lambda: None)
    one.send(2 * HUGE_BYTES, 1)
    taken: list[str] = []
    one.large.wait(HUGE_BYTES, lambda: taken.append("next"))
    one.connection.connection_lost(None)
    one.turns.run()
    assert (one.handled, one.bytes) == ([], 0)
    one.turns.run()
    assert taken == ["next"]


def test_a_client_that_goes_meanwhile_lets_the_next_one_in_afterwards(one: OneConnection) -> None:
    for _ in range(HUGE_AT_ONCE - 1):
        one.large.wait(HUGE_BYTES, lambda: None)
    one.send(2 * HUGE_BYTES, 1)
    taken: list[str] = []
    one.large.wait(HUGE_BYTES, lambda: taken.append("next"))
    one.turns.run()
    assert one.handled == [1]
    one.connection.connection_lost(None)
    one.turns.run()
    assert not taken
    one.connection.resume()
    one.turns.run()
    assert (taken, one.bytes) == (["next"], 0)
