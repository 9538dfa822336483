"""Produce and Fetch of many connections share the turns of the event loop."""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.protocol import fetch, produce
from tidelog.runtime import connection, hot_turns
from tidelog.runtime.hot_turns import FREE_S, SLICE_S, TURN_S, HotTurns
from tidelog.runtime.turn_budget import ConnectionTurn
from unit.runtime.test_write_order import World

PRODUCE, FETCH = produce.API_KEY, fetch.API_KEY


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(connection, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(hot_turns, "monotonic", lambda: self.now_s)


class Turns:
    """A loop, and the turns of its connections."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.hot = HotTurns(cast(Any, SimpleNamespace(call_soon=self.soon.append)))

    def next(self) -> None:
        due, self.soon[:] = [*self.soon], []
        for callback in due:
            callback()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def worlds(turns: Turns) -> Iterator[list[World]]:
    """Connections of one server."""
    found, ends = [], []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        ours.setblocking(False)
        ends += [ours, theirs]
        found.append(World(ours))
        found[-1].connection._turn = ConnectionTurn(found[-1].connection._server.turn, turns.hot)
    yield found
    for world in found:
        world.connection.connection_lost(None)
    for end in ends:
        end.close()


def take_long(worlds: list[World], clock: Clock, each_s: float) -> list[tuple[int, int]]:
    """Every request takes so long, and is answered at once. Returns what is handled: whose, and its API."""
    handled: list[tuple[int, int]] = []

    def handle(number: int, api_key: int, send: Callable[[Any], None]) -> None:
        handled.append((number, api_key))
        clock.now_s += each_s
        send(b"x" if api_key == PRODUCE else [b"f"])

    for number, world in enumerate(worlds):
        server = cast(Any, world.connection._server)
        server.produce = SimpleNamespace(
            handle=lambda request, at, context, send, asker, number=number: handle(number, PRODUCE, send)
        )
        server.fetch = SimpleNamespace(
            handle=lambda request, at, context, send, *_, number=number: handle(number, FETCH, send)
        )
    return handled


def test_who_comes_after_the_time_of_a_turn_waits_for_the_next(clock: Clock, turns: Turns) -> None:
    assert not turns.hot.must_wait(clock.now_s)
    clock.now_s += TURN_S
    assert turns.hot.must_wait(clock.now_s)
    turns.next()
    assert not turns.hot.must_wait(clock.now_s)


def test_requests_that_are_far_apart_do_not_wait(clock: Clock, turns: Turns) -> None:
    for _ in range(5):
        assert not turns.hot.must_wait(clock.now_s)
        turns.next()
        clock.now_s += 1


def test_a_moment_after_a_turn_no_other_callback_is_asked_for(clock: Clock, turns: Turns) -> None:
    turns.hot.must_wait(clock.now_s)
    turns.next()
    clock.now_s += FREE_S / 2
    assert not turns.hot.must_wait(clock.now_s)
    assert not turns.soon
    clock.now_s += FREE_S
    turns.hot.must_wait(clock.now_s)
    assert len(turns.soon) == 1


def test_those_that_wait_go_first(clock: Clock, turns: Turns) -> None:
    taken: list[int] = []

    def take(number: int) -> None:
        taken.append(number)
        clock.now_s += TURN_S * 0.51

    turns.hot.must_wait(clock.now_s)
    clock.now_s += TURN_S
    for number in range(5):
        assert turns.hot.must_wait(clock.now_s)
        turns.hot.wait(lambda number=number: take(number))  # type: ignore[misc]
    turns.next()
    assert taken == [0, 1]
    clock.now_s += 1
    assert turns.hot.must_wait(clock.now_s), "others have waited longer"
    turns.next()
    turns.next()
    assert taken == [0, 1, 2, 3, 4]
    turns.next()
    assert (turns.hot.must_wait(clock.now_s), turns.soon) == (False, [])


def test_one_that_fails_does_not_stop_the_others(clock: Clock, turns: Turns) -> None:
    taken: list[int] = []

    def fail() -> None:
        raise ValueError("one connection")

    turns.hot.must_wait(clock.now_s)
    clock.now_s += TURN_S
    turns.hot.wait(fail)
    turns.hot.wait(lambda: taken.append(1))
    with pytest.raises(ValueError, match="one connection"):
        turns.next()
    turns.next()
    assert taken == [1]


@pytest.mark.parametrize("api_key", [PRODUCE, FETCH])
def test_pipelined_requests_of_many_connections_share_a_turn(
    clock: Clock, turns: Turns, worlds: list[World], api_key: int
) -> None:
    handled = take_long(worlds, clock, SLICE_S * 1.001)  # never a little less
    for world in worlds:
        world.ask(*[api_key] * 30)
    in_one_turn = round(TURN_S / SLICE_S)
    assert handled == [(0, api_key)] * in_one_turn, "the others wait"
    assert not any(world.transport.reads for world in worlds)
    turns.next()
    assert handled[in_one_turn:] == [(number, api_key) for number in range(3)], "each has a slice"
    while turns.soon:
        before = len(handled)
        turns.next()
        assert len(handled) - before <= in_one_turn + 1
    assert [handled.count((number, api_key)) for number in range(3)] == [30, 30, 30]
    assert all(world.transport.reads and world.connection.idle for world in worlds)


def test_a_short_run_is_not_cut(clock: Clock, turns: Turns, worlds: list[World]) -> None:
    """What usual clients have in flight is handled in one piece, even if others wait."""
    handled = take_long(worlds, clock, SLICE_S / 5)
    worlds[0].ask(*[PRODUCE] * 100)
    begun = len(handled)
    worlds[1].ask(*[PRODUCE] * 5)
    worlds[2].ask(*[PRODUCE] * 5)
    turns.next()
    assert [handled[begun:].count((number, PRODUCE)) for number in (1, 2)] == [5, 5]
    assert handled[begun + 5 : begun + 10] == [(1, PRODUCE)] * 5


def test_a_connection_that_closes_while_it_waits(clock: Clock, turns: Turns, worlds: list[World]) -> None:
    handled = take_long(worlds, clock, TURN_S)
    for world in worlds:
        world.ask(PRODUCE, PRODUCE)
    assert len(handled) == 1
    worlds[1].connection.connection_lost(None)
    while turns.soon:
        turns.next()
    assert [number for number, _ in handled] == [0, 0, 2, 2]


def test_other_nodes_do_not_wait(clock: Clock, turns: Turns, worlds: list[World]) -> None:
    handled = take_long(worlds, clock, TURN_S)
    worlds[1].connection.node = 2
    worlds[0].ask(PRODUCE, PRODUCE)
    worlds[1].ask(FETCH, FETCH)
    assert handled == [(0, PRODUCE), (1, FETCH), (1, FETCH)]


def test_quotas_count_a_request_that_has_waited(
    clock: Clock, turns: Turns, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = take_long(worlds, clock, TURN_S)
    counted: list[float] = []
    cast(Any, worlds[0].connection._server).metered = True

    def taken(slot: object, request: memoryview, spent_s: float) -> int:
        counted.append(spent_s)
        return 0

    meter = SimpleNamespace(taken=taken, answered=lambda slot, parts: (parts, 0))
    monkeypatch.setattr(
        worlds[0].connection._server, "metering", SimpleNamespace(meter_of=lambda *_: meter), raising=False
    )
    worlds[0].ask(PRODUCE, PRODUCE, PRODUCE)
    while turns.soon:
        turns.next()
    assert len(handled) == 3
    assert len(counted) == 3
