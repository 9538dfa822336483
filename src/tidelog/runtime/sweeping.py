"""Which open connections are closed because of the time that they take.

- A client's connection that is idle for longer than ``connections.max.idle.ms``.
- One with an incomplete request that gets no bytes any more, or that gets them so slowly that the request is
  incomplete after its deadline: it uses memory for which others may wait. Each byte may come in time and the
  request still take years, so the deadline is that of the whole request.
- One beyond the limits for clients that has not shown that it is a node's.

The broker itself may keep a connection waiting, for memory or because of a quota; that time counts only as
idle.
"""

from typing import Protocol

from tidelog.config import BrokerConfig
from tidelog.runtime.connection_limits import RESERVED_S, ConnectionPlace

CHECKS = 4  # per timeout
STALLED_S = 30.0  # timeout for the next bytes of an incomplete request
REQUEST_S = 60.0  # for a request to be complete, besides the time for its bytes
LEAST_BYTES_PER_S = 16 * 1024  # of a large request
NONE = -1


class SweptConnection(Protocol):
    last_active: float
    # The incomplete request that was seen at the last look, and when it was seen first.
    incomplete: int
    incomplete_since_s: float
    waited_until_s: float  # when the broker was last seen to take no bytes from it

    @property
    def place(self) -> ConnectionPlace | None: ...
    @property
    def node(self) -> int | None: ...
    @property
    def idle(self) -> bool: ...
    @property
    def in_the_middle(self) -> bool: ...
    @property
    def waits(self) -> bool:
        """Whether the broker takes no bytes from it at the moment."""

    @property
    def request_number(self) -> int: ...
    @property
    def announced_bytes(self) -> int: ...


def interval_s(config: BrokerConfig) -> float:
    idle_s = config.connections_max_idle_ms / 1000
    return min(STALLED_S, max(idle_s, 0.2) if idle_s > 0 else STALLED_S) / CHECKS


def why_close(connection: SweptConnection, config: BrokerConfig, now_s: float) -> tuple[str, bool] | None:
    """The reason to close it, and whether that is usual; None: it stays open."""
    place = connection.place
    if place is not None and place.refusal and now_s - place.since_s > RESERVED_S:
        return place.refusal, False
    if connection.waits:
        connection.waited_until_s = now_s
    silent_s = now_s - connection.last_active
    if connection.in_the_middle and connection.idle and _without_waits_s(connection, now_s) > STALLED_S:
        return f"an incomplete request got no bytes for {STALLED_S:.0f} s", False
    if _is_too_slow(connection, now_s):
        since_s = now_s - connection.incomplete_since_s
        return f"a request was still incomplete after {since_s:.0f} s", False
    idle_s = config.connections_max_idle_ms / 1000
    if 0 < idle_s < silent_s and connection.idle and connection.node is None:
        return f"idle for more than connections.max.idle.ms ({config.connections_max_idle_ms})", True
    return None


def _without_waits_s(connection: SweptConnection, now_s: float) -> float:
    """How long the client has sent nothing although the broker would have taken it."""
    return now_s - max(connection.last_active, connection.waited_until_s)


def _is_too_slow(connection: SweptConnection, now_s: float) -> bool:
    if not connection.in_the_middle or connection.waits:
        connection.incomplete = NONE
        return False
    if connection.incomplete != connection.request_number:
        connection.incomplete = connection.request_number
        connection.incomplete_since_s = now_s
        return False
    allowed_s = REQUEST_S + connection.announced_bytes / LEAST_BYTES_PER_S
    return now_s - connection.incomplete_since_s > allowed_s
