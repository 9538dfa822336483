"""Memory of a large request whose batch is in a thread: held until the thread is done, whatever its client
does meanwhile.
"""

import asyncio
import socket
from collections.abc import Iterator
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.runtime.connection import Connection
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.receiver import OWN_BUFFER_FROM_BYTES
from tidelog.runtime.traffic import Reads, RequestTimes
from unit.runtime.no_logins import NO_LOGINS

SIZE = 2 * OWN_BUFFER_FROM_BYTES


class Held:
    """A connection whose only request has gone to a thread."""

    def __init__(self, ours: socket.socket) -> None:
        self.bytes = 0
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=1 << 20, max_unanswered=100, requests=0, gate=None, ready=True, metered=False,
            times=RequestTimes(), gathering=Gathering(lambda callback: None), reads=Reads(),
            turn=SimpleNamespace(is_spent=lambda now_s: False),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            loop=SimpleNamespace(time=lambda: 0.0, call_soon=lambda callback: None),
            broker=SimpleNamespace(services=None), encode=None, compute=None,
            admit=lambda connection: "", forget=lambda connection: None,
            client_memory=SimpleNamespace(
                hold=self._hold, release=self._release, readable_bytes=lambda size: size
            ),
            produce=SimpleNamespace(handle=lambda request, at, context, send, asker: asker.hold()),
        )  # fmt: skip
        self.connection = Connection(cast(Any, server))
        transport = SimpleNamespace(
            get_extra_info=lambda name: ("client", 1) if name == "peername" else ours,
            set_write_buffer_limits=lambda high: None,
            pause_reading=lambda: None, resume_reading=lambda: None,
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, transport))
        frame = pack(">ihhih", SIZE, 0, 9, 1, -1) + bytes(SIZE - 10)
        while frame:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(frame), 4096)
            buffer[:count], frame = frame[:count], frame[count:]
            self.connection.buffer_updated(count)

    def _hold(self, count: int, connection: Connection) -> bool:
        self.bytes += count
        return True

    def _release(self, count: int, connection: Connection) -> None:
        self.bytes -= count


@pytest.fixture
def held() -> Iterator[Held]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        found = Held(ours)
        yield found
        found.connection.connection_lost(None)


def test_it_is_given_back_when_the_thread_is_done(held: Held) -> None:
    assert held.bytes > 0
    held.connection.resume()
    assert held.bytes == 0


def test_a_client_that_goes_does_not_make_room_for_more(held: Held) -> None:
    before = held.bytes
    held.connection.connection_lost(None)
    assert held.bytes == before > 0
    held.connection.resume()
    assert held.bytes == 0
