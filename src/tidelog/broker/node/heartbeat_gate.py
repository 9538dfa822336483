"""Delays heartbeat responses until it is certain that this node was the active controller.

A successful response extends a broker's session: for that time the broker leads without further contact. A
controller behind a network partition does not know that it was replaced. Its successor fences a silent broker
after one session, counted from the successor's start. So a response is sent only when a majority of the
voters has confirmed that it followed this controller after the heartbeat arrived. Until then no other
controller can have become active.

A message of a voter is not enough: it may have been sent before the voter voted for another controller. The
voter must confirm something that was sent to it after the heartbeat arrived. That takes one round trip.
Without a majority the responses wait until this node is no longer the leader.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog.controller.messages import HeartbeatGot
from tidelog.errors import ErrorCode
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetch_server import FetchServer


class Held(NamedTuple):
    since_ms: int  # when the heartbeat arrived
    got: HeartbeatGot
    respond: Callable[[HeartbeatGot], None]


class HeartbeatGate:
    def __init__(self, metadata: ReplicaDriver, fetch_server: FetchServer) -> None:
        self._metadata = metadata
        self._fetch_server = fetch_server
        fetch_server.confirm(metadata)
        self._held: deque[Held] = deque()

    def pass_on(self, since_ms: int, got: HeartbeatGot, respond: Callable[[HeartbeatGot], None]) -> None:
        """Send the response when it is confirmed. An error extends no session and is sent immediately."""
        if got.error is not ErrorCode.NONE:
            respond(got)
            return
        self._held.append(Held(since_ms, got, respond))
        self.look()

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def look(self) -> None:
        """Send confirmed responses. Called after messages of voters and periodically."""
        if not self._held:
            return
        confirmed_ms = self._metadata.voter.confirmed_ms()
        while self._held and self._held[0].since_ms <= confirmed_ms:
            held = self._held.popleft()
            held.respond(held.got)
        if self._held:
            self._fetch_server.prompt(self._metadata, self._held[0].since_ms)

    def close(self) -> None:
        """This node is no longer the active controller. Each request must get a response, because responses
        are matched to requests by their order.
        """
        held, self._held = self._held, deque()
        for each in held:
            each.respond(each.got._replace(error=ErrorCode.NOT_CONTROLLER))
