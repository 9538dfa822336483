"""The event loop of the relay: sockets that become ready, and timers.

Not asyncio, whose transports copy bytes into objects: here a pump sees the sockets themselves.
"""

import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Callable

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Ready = Callable[[int], None]


class Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class RelayLoop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._running = True
        self.now = time.monotonic

    def run(self) -> None:
        while self._running:
            for key, mask in self._selector.select(self._timeout_s()):
                key.data(mask)
            self._fire()

    def stop(self) -> None:
        self._running = False

    def watch(self, file: socket.socket | int, mask: int, before: int, ready: Ready) -> None:
        """Call ``ready`` with what the file is ready for, of READ and WRITE in ``mask``; 0: no more."""
        if not mask:
            self._selector.unregister(file)
        elif before:
            self._selector.modify(file, mask, ready)
        else:
            self._selector.register(file, mask, ready)

    def at(self, moment: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (moment, next(self._numbers), timer))
        return timer

    def _timeout_s(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(self._timers[0][0] - self.now(), 0.0) if self._timers else None

    def _fire(self) -> None:
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()


class End:
    """One socket of a connection. A pump reads from it, and another writes to it."""

    __slots__ = ("_loop", "_mask", "file", "on_read", "on_write")

    def __init__(self, loop: RelayLoop, file: socket.socket) -> None:
        file.setblocking(False)
        file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._mask = 0
        self.file = file
        self.on_read: Callable[[], None] = _nothing
        self.on_write: Callable[[], None] = _nothing

    def want(self, kind: int, wanted: bool) -> None:
        mask = self._mask | kind if wanted else self._mask & ~kind
        if mask != self._mask:
            self._loop.watch(self.file, mask, self._mask, self._ready)
            self._mask = mask

    def close(self, *, reset: bool = False) -> None:
        self.want(READ | WRITE, False)
        if reset:
            # As TCP ends a connection to which the other side does not answer any more.
            self.file.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.file.close()

    def _ready(self, mask: int) -> None:
        if mask & WRITE and self._mask & WRITE:
            self.on_write()
        if mask & READ and self._mask & READ:
            self.on_read()


def _nothing() -> None:
    pass


_RESET = struct.pack("ii", 1, 0)
