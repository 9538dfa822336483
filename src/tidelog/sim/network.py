"""A network between simulated nodes and clients that delays, drops, doubles and reorders, and can be cut in
any direction.

A cut drops messages silently: neither end notices. A closing connection loses what was in flight, and an end
that notices is told at once.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tidelog.sim.world import World

OLD_MS = 8000.0

Deliver = Callable[[Any], None]
Link = tuple[int, int]
"""(sender, receiver)"""


class Weather:
    """The faults of the network. A new one has none."""

    def __init__(self) -> None:
        self.delay_ms = (0.1, 2.0)
        self.lost = 0.0  # probability for each message
        self.doubled = 0.0
        self.late = 0.0  # probability of a delay far beyond the usual
        self.late_ms = 400.0


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self.weather = Weather()
        self._nodes: dict[int, Deliver] = {}
        self._lost: dict[int, Callable[[int], None]] = {}
        self._cuts: set[Link] = set()
        self._closed: dict[Link, int] = {}  # count: a message of an earlier connection never arrives
        self._arrivals: dict[Link, float] = {}  # of the newest message that must not be overtaken
        self.slow: dict[int, float] = {}  # node → extra delay of everything it sends or gets
        self.slow_links: dict[Link, float] = {}
        self.messages = 0
        # Messages with a second, slow path: a copy arrives within OLD_MS.
        self.copied: Callable[[Any], bool] | None = None
        self.on_send: Callable[[Any], None] | None = None  # for observers that count messages
        # Messages held back until they are released, for stories: (sender, receiver, message).
        self.withheld: Callable[[int, int, Any], bool] | None = None
        self._on_its_way: list[Callable[[], None]] = []

    # --- who is there ---------------------------------------------------------------------------------------

    def join(self, node: int, deliver: Deliver, peer_lost: Callable[[int], None]) -> None:
        self._nodes[node] = deliver
        self._lost[node] = peer_lost

    def leave(self, node: int, *, noticed: bool) -> None:
        """The process is gone. If its machine is alive, the others' connections close at once
        (``noticed``).
        """
        self._nodes.pop(node, None)
        self._lost.pop(node, None)
        if noticed:
            for other in sorted(self._lost):
                if (node, other) not in self._cuts:
                    self._tell_lost(other, node)

    def _tell_lost(self, who: int, peer: int) -> None:
        def tell() -> None:
            callback = self._lost.get(who)
            if callback is not None:
                callback(peer)

        self._world.after(self._delay(), tell)

    # --- trouble --------------------------------------------------------------------------------------------

    def cut(self, sender: int, receiver: int) -> None:
        self._cuts.add((sender, receiver))

    def mend(self, sender: int, receiver: int) -> None:
        self._cuts.discard((sender, receiver))

    def part(self, ones: Iterable[int], others: Iterable[int]) -> None:
        """No messages between any of ``ones`` and any of ``others``, in either direction."""
        others = list(others)
        for one in ones:
            for other in others:
                if one != other:
                    self.cut(one, other)
                    self.cut(other, one)

    def close(self, one: int, other: int, noticed_by: Iterable[int]) -> None:
        """The connection between the two breaks. An end that does not notice continues; what it sends from
        now on uses a new connection.
        """
        for link in ((one, other), (other, one)):
            self._closed[link] = self._closed.get(link, 0) + 1
        for end in noticed_by:
            self._tell_lost(end, other if end == one else one)

    def heal(self) -> None:
        self._cuts.clear()
        self.slow.clear()
        self.slow_links.clear()

    def reaches(self, one: int, other: int) -> bool:
        """Whether messages get through in both directions."""
        return (one, other) not in self._cuts and (other, one) not in self._cuts

    # --- messages -------------------------------------------------------------------------------------------

    def send(self, sender: int, receiver: int, message: Any, *, in_order: bool = False) -> None:
        """``in_order``: as on one connection, nothing overtakes and nothing arrives twice. Brokers must do
        without: their connections are replaced while old bytes still wait in a socket.
        """
        self.messages += 1
        if self.on_send is not None:
            self.on_send(message)
        world, weather, link = self._world, self.weather, (sender, receiver)
        chance = world.chance.random
        if link in self._cuts or (weather.lost and chance() < weather.lost):
            return
        arrival = partial(self._deliver, link, self._closed.get(link, 0), message)
        if self.withheld is not None and self.withheld(sender, receiver, message):
            self._on_its_way.append(arrival)
            return
        if self.copied is not None and self.copied(message):
            world.after(chance() * OLD_MS, arrival)
        copies = 2 if weather.doubled and chance() < weather.doubled and not in_order else 1
        low, high = weather.delay_ms
        for _ in range(copies):
            delay = low + (high - low) * chance()
            if self.slow:
                delay += self.slow.get(sender, 0.0) + self.slow.get(receiver, 0.0)
            if self.slow_links:
                delay += self.slow_links.get(link, 0.0)
            if weather.late and chance() < weather.late:
                delay += chance() * weather.late_ms
            if in_order:
                arrives_ms = self._arrivals[link] = max(world.now_ms + delay, self._arrivals.get(link, 0.0))
                world.at(arrives_ms, arrival)
            else:
                world.after(delay, arrival)

    def release(self, count: int | None = None) -> None:
        """Release all held messages, or that many of the oldest."""
        released, self._on_its_way = (
            self._on_its_way[:count],
            self._on_its_way[len(self._on_its_way[:count]) :],
        )
        for arrival in released:
            self._world.after(self._delay(), arrival)

    def _deliver(self, link: Link, connection: int, message: Any) -> None:
        deliver = self._nodes.get(link[1])
        # A link that is cut while a message is in flight loses it.
        if deliver is not None and link not in self._cuts and connection == self._closed.get(link, 0):
            deliver(message)

    def _delay(self) -> float:
        low, high = self.weather.delay_ms
        return low + (high - low) * self._world.chance.random()
