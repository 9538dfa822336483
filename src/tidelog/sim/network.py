"""A network between simulated nodes that delays, drops, doubles and reorders, and can be cut in any
direction.
"""

from collections.abc import Callable
from typing import Any

from tidelog.sim.world import World

Deliver = Callable[[Any], None]


class Weather:
    """How bad the network is."""

    def __init__(self) -> None:
        self.delay_ms = (0.1, 2.0)
        self.lost = 0.0  # probability for each message
        self.doubled = 0.0
        self.late = 0.0  # probability of a delay far beyond the usual
        self.late_ms = 400.0

    def calm(self) -> None:
        self.__init__()  # type: ignore[misc]


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self.weather = Weather()
        self._nodes: dict[int, Deliver] = {}
        self._lost: dict[int, Callable[[int], None]] = {}
        self._cuts: set[tuple[int, int]] = set()  # (from, to)
        self.slow: dict[int, float] = {}  # node → extra delay of everything it sends or gets
        self.messages = 0

    def join(self, node: int, deliver: Deliver, peer_lost: Callable[[int], None]) -> None:
        self._nodes[node] = deliver
        self._lost[node] = peer_lost

    def leave(self, node: int, *, noticed: bool) -> None:
        """The process is gone. When its machine lives on, the others' connections close at once
        (``noticed``).
        """
        self._nodes.pop(node, None)
        self._lost.pop(node, None)
        if noticed:
            for other in sorted(self._lost):
                if (node, other) not in self._cuts:
                    self._world.after(self._delay(), self._tell_lost(other, node))

    def _tell_lost(self, other: int, node: int) -> Callable[[], None]:
        def tell() -> None:
            callback = self._lost.get(other)
            if callback is not None:
                callback(node)

        return tell

    def cut(self, sender: int, receiver: int) -> None:
        self._cuts.add((sender, receiver))

    def isolate(self, node: int, others: list[int]) -> None:
        for other in others:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def heal(self) -> None:
        self._cuts.clear()
        self.slow.clear()

    def send(self, sender: int, receiver: int, message: Any) -> None:
        self.messages += 1
        chance, weather = self._world.chance, self.weather
        if (sender, receiver) in self._cuts or chance.random() < weather.lost:
            return
        copies = 2 if chance.random() < weather.doubled else 1
        for _ in range(copies):
            delay = self._delay() + self.slow.get(sender, 0.0) + self.slow.get(receiver, 0.0)
            if chance.random() < weather.late:
                delay += chance.uniform(0, weather.late_ms)
            self._world.after(delay, lambda: self._deliver(sender, receiver, message))

    def _deliver(self, sender: int, receiver: int, message: Any) -> None:
        deliver = self._nodes.get(receiver)
        # A connection that is cut while a message is under way loses it.
        if deliver is not None and (sender, receiver) not in self._cuts:
            deliver(message)

    def _delay(self) -> float:
        return self._world.chance.uniform(*self.weather.delay_ms)
