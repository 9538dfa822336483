"""Questions to the active controller: sends those of this node, and decides all of them while this node is
the active controller.

Leaders of thousands of partitions may ask together. So questions about single partitions are decided a few at
a time, in their order. Other questions do not wait for them: a heartbeat of this node's own broker that waits
too long would cost it its session.
"""

from collections import deque
from collections.abc import Callable

from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.node.heartbeat_gate import HeartbeatGate
from tidelog.broker.node.ports import Answered, Asked, NodePeers
from tidelog.controller.driver import ControllerDriver
from tidelog.controller.messages import ControllerAsk, ControllerGot, HeartbeatGot, InSyncAsk
from tidelog.services import Services

ASKS_AT_ONCE = 10  # decisions about single partitions, in one turn: about 4 ms with 10,000 partitions

Respond = Callable[[ControllerGot], None]


class ControllerAsks:
    def __init__(
        self,
        me: int,
        metadata: MetadataQuorum,
        driver: ControllerDriver,
        heartbeats: HeartbeatGate,
        services: Services,
        peers: NodePeers,
        on_got: Respond,
    ) -> None:
        """``on_got`` gets the responses to this node's own questions while it is the active controller."""
        self._me = me
        self._metadata = metadata
        self._driver = driver
        self._heartbeats = heartbeats
        self._services = services
        self._peers = peers
        self._on_got = on_got
        self._pending: deque[tuple[ControllerAsk, Respond]] = deque()  # about single partitions
        self._own: deque[ControllerAsk] = deque()  # of this node, about anything else
        self._decided = 0  # in this turn
        self._goes_on = False  # The next turn is due.
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def ask(self, ask: ControllerAsk) -> None:
        """A question of this node. It is dropped while no active controller is known."""
        leader = self._metadata.leader
        if leader == self._me:
            if isinstance(ask, InSyncAsk):
                self._pending.append((ask, self._on_got))
            else:
                self._own.append(ask)
            self._decide_soon()
        elif leader >= 0:
            self._peers.send(leader, Asked(self._me, ask))

    def received(self, sender: int, ask: ControllerAsk) -> None:
        """A question of another node."""
        if not isinstance(ask, InSyncAsk):
            self._decide(ask, lambda got: self._respond(sender, got))
            return
        if self._pending or self._decided >= ASKS_AT_ONCE:
            self._pending.append((ask, lambda got: self._respond(sender, got)))
        else:
            self._decided += 1
            self._decide(ask, lambda got: self._respond(sender, got))
        self._decide_soon()

    def _decide_soon(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._services.soon(self._decide_some)

    def _decide_some(self) -> None:
        self._goes_on = False
        self._decided = 0
        try:
            for _ in range(len(self._own)):
                self._decide(self._own.popleft(), self._on_got)
            while self._pending and self._decided < ASKS_AT_ONCE:
                self._decided += 1
                self._decide(*self._pending.popleft())
        finally:
            if self._own or self._pending:
                self._decide_soon()
            else:
                self._decided = 0

    def _decide(self, ask: ControllerAsk, respond: Respond) -> None:
        now_ms = self._services.uptime_ms()

        def decided(got: ControllerGot) -> None:
            if isinstance(got, HeartbeatGot):
                self._heartbeats.pass_on(now_ms, got, respond)
            else:
                respond(got)

        self._driver.handle(ask, now_ms, decided)

    def _respond(self, to: int, got: ControllerGot) -> None:
        if not self._stopped:
            self._peers.send(to, Answered(self._me, got))
