"""Connections that take too long: idle ones, and requests that come byte by byte."""

from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.config import BrokerConfig
from tidelog.runtime import sweeping
from tidelog.runtime.connection import Connection
from tidelog.runtime.connection_limits import RESERVED_S, ConnectionPlace
from tidelog.runtime.sweeping import LEAST_BYTES_PER_S, REQUEST_S, STALLED_S
from unit.runtime.no_logins import NO_LOGINS

CONFIG = BrokerConfig.parse({})
LOOK_S = sweeping.interval_s(CONFIG)


class Client:
    """A connection of a broker that answers nothing, with a clock that the test moves."""

    def __init__(self, place: ConnectionPlace | None = None) -> None:
        self.now = 0.0
        server = SimpleNamespace(
            logins=NO_LOGINS,
            max_request_bytes=100 << 20, max_unanswered=100, gate=None, ready=True, metered=False,
            turn=SimpleNamespace(is_spent=lambda now_s: False),
            hot_turns=SimpleNamespace(must_wait=lambda now_s: False),
            loop=SimpleNamespace(time=lambda: self.now),
            client_memory=SimpleNamespace(hold=lambda count, of: True, readable_bytes=lambda size: size),
        )  # fmt: skip
        self.connection = Connection(cast(Any, server), place=place)

    def send(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count], data = data[:count], data[count:]
            self.connection.buffer_updated(count)

    def drip(self, seconds: float) -> float | None:
        """A byte at each look; when the connection is closed."""
        until = self.now + seconds
        while self.now < until:
            self.send(b"x")
            reason = sweeping.why_close(self.connection, CONFIG, self.now)
            if reason is not None:
                assert "was still incomplete after" in reason[0]
                return self.now
            self.now += LOOK_S
        return None


@pytest.mark.parametrize("announced", [10_000, 100_000])
def test_each_byte_in_time_is_not_enough(announced: int) -> None:
    client = Client()
    client.send(pack(">ih", announced, 0))
    closed = client.drip(10 * REQUEST_S)
    assert closed is not None
    allowed = REQUEST_S + announced / LEAST_BYTES_PER_S
    assert REQUEST_S < closed <= allowed + 2 * LOOK_S


def test_a_large_request_has_more_time() -> None:
    client = Client()
    client.send(pack(">ih", 64 << 20, 0))
    client.send(bytes(1 << 20))
    assert client.drip(REQUEST_S + 60 * (1 << 20) / LEAST_BYTES_PER_S) is None


def test_the_next_request_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    monkeypatch.setattr(Connection, "dispatch", lambda *_: None)
    for _ in range(5):
        client.send(pack(">ih", 1000, 0))
        assert client.drip(REQUEST_S * 0.9) is None
        rest = 998 - client.connection._receiver._end + client.connection._receiver._start + 6
        client.send(bytes(rest))
        assert not client.connection.in_the_middle


def test_time_in_which_the_broker_takes_nothing_does_not_count() -> None:
    client = Client()
    client.send(pack(">ih", 10_000, 0))
    client.drip(REQUEST_S * 0.9)
    client.connection._stopped_reading = True
    client.now += REQUEST_S
    client.connection.last_active = client.now
    assert sweeping.why_close(client.connection, CONFIG, client.now) is None
    client.connection._stopped_reading = False
    assert client.drip(REQUEST_S * 0.9) is None


def test_no_more_bytes() -> None:
    client = Client()
    client.send(pack(">i", 1000))
    assert sweeping.why_close(client.connection, CONFIG, STALLED_S) is None
    reason = sweeping.why_close(client.connection, CONFIG, STALLED_S + 1)
    assert reason is not None
    assert "got no bytes" in reason[0]


def test_no_more_bytes_because_the_broker_takes_none() -> None:
    """For instance, because of a quota. The rest of a request may be in the kernel's buffers."""
    client = Client()
    client.send(pack(">i", 1000))
    client.connection._stopped_reading = True
    for _ in range(10):
        client.now += LOOK_S
        assert sweeping.why_close(client.connection, CONFIG, client.now) is None
    client.connection._stopped_reading = False
    client.now += STALLED_S
    assert sweeping.why_close(client.connection, CONFIG, client.now) is None
    assert sweeping.why_close(client.connection, CONFIG, client.now + 1) is not None


def test_a_client_that_is_kept_waiting_for_long_may_have_ended() -> None:
    client = Client()
    client.send(pack(">i", 1000))
    client.connection._stopped_reading = True
    client.now = CONFIG.connections_max_idle_ms / 1000 + 1
    reason = sweeping.why_close(client.connection, CONFIG, client.now)
    assert reason is not None
    assert "connections.max.idle.ms" in reason[0]


def test_idle() -> None:
    client = Client()
    idle_s = CONFIG.connections_max_idle_ms / 1000
    assert sweeping.why_close(client.connection, CONFIG, idle_s) is None
    reason = sweeping.why_close(client.connection, CONFIG, idle_s + 1)
    assert reason is not None
    assert "connections.max.idle.ms" in reason[0]


def test_a_place_for_nodes_is_not_for_silence() -> None:
    client = Client(ConnectionPlace("10.0.0.1", 100.0, "max.connections (5) is reached"))
    client.connection.last_active = 100.0
    assert sweeping.why_close(client.connection, CONFIG, 100 + RESERVED_S) is None
    assert sweeping.why_close(client.connection, CONFIG, 101 + RESERVED_S) == (
        "max.connections (5) is reached",
        False,
    )
