"""Answers that only the active controller may give, held back until it is sure that it was it.

"You are alive" is worth a session to a broker: so long it leads on, though it hears of nobody. A controller
that is cut off does not know that it was replaced, and its successor gives every broker one session from its
own beginning, not a longer one. So an answer leaves only when a majority of the voters has shown that it
followed this controller after the heartbeat came: until then nobody else can have begun to decide.

That a voter was heard since is not enough: what it said may be old, from before it voted for another one. It
has to say that it has something which was sent to it after the heartbeat came. To have it do so takes one
round trip; without a majority the answers wait until this node leads no more.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tidelog.controller.messages import HeartbeatGot
from tidelog.errors import ErrorCode
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetch_server import FetchServer


class Held(NamedTuple):
    since_ms: int  # when the heartbeat came
    got: HeartbeatGot
    answer: Callable[[HeartbeatGot], None]


class HeartbeatGate:
    def __init__(self, metadata: ReplicaDriver, serving: FetchServer) -> None:
        self._metadata = metadata
        self._serving = serving
        serving.confirming = metadata
        self._held: deque[Held] = deque()

    def pass_on(self, since_ms: int, got: HeartbeatGot, answer: Callable[[HeartbeatGot], None]) -> None:
        """Answer when it is certain. A refusal prolongs nothing, and need not wait."""
        if got.error is not ErrorCode.NONE:
            answer(got)
            return
        self._held.append(Held(since_ms, got, answer))
        self.look()

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def look(self) -> None:
        """A voter was heard, or time has passed."""
        if not self._held:
            return
        confirmed_ms = self._metadata.voter.confirmed_ms()
        while self._held and self._held[0].since_ms <= confirmed_ms:
            held = self._held.popleft()
            held.answer(held.got)
        if self._held:
            self._serving.prompt(self._metadata, self._held[0].since_ms)

    def close(self) -> None:
        """Not the active controller any more. Each question gets an answer: otherwise a later answer would
        be taken for the one to it.
        """
        held, self._held = self._held, deque()
        for each in held:
            each.answer(each.got._replace(error=ErrorCode.NOT_CONTROLLER))
