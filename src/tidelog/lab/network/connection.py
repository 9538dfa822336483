"""One relayed connection: two sockets, and a pump for each direction.

A connection that is cut for longer than ``silence_s`` is reset on both sides, as the keep-alive of TCP does
it at each of them. An abrupt end is passed on, unless the way that the news would take is cut.
"""

import random
import socket
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.lab.network.loop import WRITE, End, RelayLoop, Timer
from tidelog.lab.network.pump import Pump
from tidelog.lab.network.shape import Line, Shape


class Route(NamedTuple):
    """What the connections of a link have in common."""

    loop: RelayLoop
    address: tuple[str, int]  # of the broker
    there: Callable[[], Shape]  # the shape of the direction to the broker, now
    back: Callable[[], Shape]
    silence_s: float | None  # None: neither side ever gives up
    refused: Callable[[], None]  # the port is closed
    lost: Callable[[], None]  # the broker closed a connection
    closed: Callable[["Connection"], None]


class Connection:
    def __init__(self, route: Route, accepted: socket.socket) -> None:
        self._route = route
        self._near = End(route.loop, accepted)
        self._far = End(route.loop, socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        self._pumps: list[Pump] = []  # there, back
        self._ended = 0
        self._pending_reset: int | None = None  # the direction of the news of it
        self._timer: Timer | None = None
        self._is_closed = False
        self._far.on_write = self._connected
        self._far.file.connect_ex(route.address)  # its result comes with the readiness for writing
        self._far.want(WRITE, True)

    def reshape(self) -> None:
        shapes = (self._route.there(), self._route.back())
        for pump, shape in zip(self._pumps, shapes, strict=False):
            pump.reshape(shape)
        self._watch_silence(any(shape.cut for shape in shapes))
        if self._pending_reset is not None and not shapes[self._pending_reset].cut:
            self.close(reset=True)

    def close(self, *, reset: bool = False) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._watch_silence(False)
        for pump in self._pumps:
            pump.close()
        for end in (self._near, self._far):
            end.close(reset=reset)
        self._route.closed(self)

    def _connected(self) -> None:
        self._far.want(WRITE, False)
        if self._far.file.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._route.refused()
            self.close(reset=True)
            return
        self._pumps.append(self._pump(self._near, self._far, is_back=False))
        if not self._is_closed:
            self._pumps.append(self._pump(self._far, self._near, is_back=True))
        if self._is_closed:  # it was broken already
            for pump in self._pumps:
                pump.close()
            return
        self.reshape()

    def _pump(self, source: End, target: End, *, is_back: bool) -> Pump:
        shape = self._route.back() if is_back else self._route.there()
        ended, failed = partial(self._passed_end, is_back), partial(self._failed, is_back)
        return Pump(self._route.loop, source, target, shape, Line(random.random), ended, failed)

    def _passed_end(self, is_back: bool) -> None:
        if is_back and not self._ended:
            self._route.lost()
        self._ended += 1
        if self._ended == 2:
            self.close()

    def _failed(self, is_back: bool, writing: bool) -> None:
        """The news of a failed write comes against the direction of the bytes."""
        news = int(is_back != writing)
        if news:
            self._route.lost()
        if (self._route.back() if news else self._route.there()).cut:
            self._pending_reset = news
        else:
            self.close(reset=True)

    def _watch_silence(self, is_cut: bool) -> None:
        if not is_cut and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif is_cut and self._timer is None and self._route.silence_s is not None:
            moment = self._route.loop.now() + self._route.silence_s
            self._timer = self._route.loop.at(moment, lambda: self.close(reset=True))


def is_accepted(address: tuple[str, int], timeout_s: float = 0.1) -> bool:
    """Whether a process listens there. One with a full queue does: it is busy, or frozen."""
    try:
        socket.create_connection(address, timeout_s).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
