"""The first request of a version: its schemas are imported in a thread, and nothing overtakes it."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.protocol import messages
from tidelog.runtime import handling
from tidelog.runtime.connection import Connection
from tidelog.runtime.gathering import Gathering
from tidelog.runtime.traffic import Reads, RequestTimes
from unit.runtime.no_logins import NO_LOGINS

HEARTBEAT, SYNC_GROUP = (12, 0), (14, 0)


class Asker:
    """A connection, and what its requests have come to."""

    def __init__(self, ours: socket.socket, patch: pytest.MonkeyPatch) -> None:
        self.taken_up: list[int] = []
        self.work: list[tuple[Callable[[], object], Callable[[object], None]]] = []
        self.is_reading = True
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=1 << 20, max_unanswered=100, requests=0, gate=None, ready=True,
            metered=False, encode=None,
            times=RequestTimes(), gathering=Gathering(lambda callback: None), reads=Reads(),
            turn=SimpleNamespace(is_spent=lambda now_s: False),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            loop=SimpleNamespace(time=lambda: 0.0, call_soon=lambda callback: None),
            broker=SimpleNamespace(services=None), compute=lambda job, done: self.work.append((job, done)),
            admit=lambda connection: "", forget=lambda connection: None,
            client_memory=SimpleNamespace(hold=lambda *_: True, release=lambda *_: None),
        )  # fmt: skip
        patch.setattr(handling, "handle_plain", self._handle)
        self.connection = Connection(cast(Any, server))
        transport = SimpleNamespace(
            get_extra_info=lambda name: ("client", 1) if name == "peername" else ours,
            set_write_buffer_limits=lambda high: None, close=lambda: None, abort=lambda: None,
            pause_reading=lambda: self._read(False), resume_reading=lambda: self._read(True),
        )  # fmt: skip
        self.connection.connection_made(cast(asyncio.Transport, transport))

    def _read(self, reads: bool) -> None:
        self.is_reading = reads

    def _handle(self, broker: object, request: object, at: int, context: Any, *_: object) -> None:
        self.taken_up.append(context.api_key)

    def send(self, *apis: tuple[int, int]) -> None:
        frames = b"".join(pack(">ihhih", 10, *api, number, -1) for number, api in enumerate(apis))
        buffer = self.connection.get_buffer(-1)
        buffer[: len(frames)] = frames
        self.connection.buffer_updated(len(frames))


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    monkeypatch.setattr(messages, "_loaded", {SYNC_GROUP})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        found = Asker(ours, monkeypatch)
        yield found
        found.connection.connection_lost(None)


def test_later_requests_wait_for_the_first_one(asker: Asker) -> None:
    asker.send(SYNC_GROUP, HEARTBEAT, SYNC_GROUP, HEARTBEAT)
    assert (asker.taken_up, asker.is_reading) == ([14], False)
    ((job, done),) = asker.work
    assert not messages.is_loaded(*HEARTBEAT)
    done(job())
    assert (asker.taken_up, asker.is_reading) == ([14, 12, 14, 12], True)
    asker.send(HEARTBEAT)
    assert (asker.taken_up[-1], len(asker.taken_up), len(asker.work)) == (12, 5, 1)


def test_a_client_that_goes_meanwhile_is_not_answered(asker: Asker) -> None:
    asker.send(HEARTBEAT)
    asker.connection.connection_lost(None)
    ((job, done),) = asker.work
    done(job())
    assert asker.taken_up == []


def test_an_import_that_fails_is_not_tried_for_ever(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(api_key: int, version: int) -> None:
        raise ImportError

    monkeypatch.setattr(messages, "_reader", fail)
    asker.send(HEARTBEAT)
    ((job, done),) = asker.work
    with pytest.raises(ImportError):
        job()
    done(ImportError())
    assert (asker.taken_up, len(asker.work)) == ([12], 1)
