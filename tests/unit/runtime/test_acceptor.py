"""Connections are accepted a few at a time, and refused ones cost next to nothing."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.config import BrokerConfig
from tidelog.runtime import acceptor as module
from tidelog.runtime.acceptor import PER_TURN, Acceptor
from tidelog.runtime.connection_limits import RESERVED, ConnectionLimits, ConnectionPlace


class Served(asyncio.Protocol):
    made: list[ConnectionPlace]

    def __init__(self, place: ConnectionPlace) -> None:
        self.made.append(place)


def run(
    test: Callable[[Acceptor, socket.socket, ConnectionLimits], Any],
    family: socket.AddressFamily = socket.AF_INET,
    **settings: int,
) -> list[ConnectionPlace]:
    Served.made = []
    config = BrokerConfig.parse({name.replace("_", "."): value for name, value in settings.items()})

    async def main() -> None:
        bound = socket.socket(family)
        bound.bind(("127.0.0.1" if family is socket.AF_INET else "::", 0))
        limits = ConnectionLimits(config, 1000)
        acceptor = Acceptor(asyncio.get_running_loop(), bound, limits, Served, 60_000)
        acceptor.start(200)
        try:
            await test(acceptor, bound, limits)
        finally:
            acceptor.close()
            acceptor.close()

    asyncio.run(main())
    return Served.made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def connect(bound: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(bound.getsockname()) for _ in range(count)]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system has no IPv6")
def test_an_ipv4_address_is_the_same_at_a_listener_for_ipv6() -> None:
    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        clients = [socket.create_connection((host, bound.getsockname()[1])) for host in ("127.0.0.1", "::1")]
        await until(lambda: len(Served.made) == 2)
        for client in clients:
            client.close()

    assert [place.ip for place in run(test, socket.AF_INET6)] == ["127.0.0.1", "::1"]


def test_a_storm_is_taken_in_turns() -> None:
    turns: list[int] = []

    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        clients = connect(bound, 100)
        take, admit = acceptor._accept_some, acceptor._admit_soon
        counted = [0]

        def count(accepted: socket.socket, ip: str) -> None:
            counted[0] += 1
            admit(accepted, ip)

        acceptor._admit_soon = count  # type: ignore[method-assign]
        while len(Served.made) < 100:
            counted[0] = 0
            take()
            turns.append(counted[0])
            await asyncio.sleep(0)
        for client in clients:
            client.close()

    assert len(run(test)) == 100
    assert max(turns) == PER_TURN


def test_beyond_the_limits_they_are_closed_before_anything_is_made() -> None:
    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        clients = connect(bound, 3 + RESERVED + 2)
        await until(lambda: len(Served.made) == 3 + RESERVED)
        for client in clients:
            client.settimeout(0)
        await until(lambda: sum(map(_is_closed, clients)) == 2)

    places = run(test, max_connections_per_ip=3)
    assert [bool(place.refusal) for place in places] == [False] * 3 + [True] * RESERVED


def test_a_connection_that_ends_at_the_same_time_makes_room() -> None:
    """A client that connects again is not refused because of its last connection."""

    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        clients = connect(bound, 1)
        await until(lambda: len(Served.made) == 1)
        clients += connect(bound, 1)
        acceptor._accept_some()
        limits.release(Served.made[0])
        await until(lambda: len(Served.made) == 2)
        for client in clients:
            client.close()

    places = run(test, max_connections=1)
    assert [place.refusal for place in places] == ["", ""]


def test_without_descriptors_it_pauses_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.01)

    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        tries: list[int] = []

        class Exhausted:
            def accept(self) -> None:
                tries.append(1)
                raise OSError(errno.EMFILE, "Too many open files")

            def fileno(self) -> int:
                return bound.fileno()

        acceptor._listening = Exhausted()  # type: ignore[assignment]
        clients = connect(bound, 1)
        await until(lambda: len(tries) >= 2)
        # Between two tries it does not look: the waiting connection would keep the loop busy.
        before = len(tries)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(tries) <= before + 1
        acceptor._listening = bound
        await until(lambda: len(Served.made) == 1)
        clients[0].close()

    run(test)


def test_a_connection_that_cannot_be_served_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(acceptor: Acceptor, bound: socket.socket, limits: ConnectionLimits) -> None:
        async def fails(*_: object) -> None:
            raise ConnectionResetError("gone")

        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fails)
        (client,) = connect(bound, 1)
        client.settimeout(0)
        await until(lambda: _is_closed(client))
        assert limits._clients == 0

    run(test)


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
