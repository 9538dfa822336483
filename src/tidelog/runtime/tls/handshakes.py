"""The work of TLS handshakes, in a thread of their own, and how many of them there may be at a time.

A handshake takes about a millisecond of computation. On the event loop, a storm of a thousand per second
would leave no time for heartbeats. OpenSSL computes without Python's lock, so a thread delays nothing else.
Each listener has its own thread: clients cannot make other nodes wait.

A handshake that waits for its client costs only memory, and ends after its time. If there are too many, the
one that has waited longest is dropped: that is not the one of a client that answers at once.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class HandshakeThread:
    """Runs one step after another. Started by the first, ended by :meth:`close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._steps: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, step: Callable[[], T], done: Callable[[T], None]) -> None:
        """``step`` runs in the thread and raises nothing, ``done`` is called in the loop with its result."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"tls-{self._name}", daemon=True)
            self._thread.start()

        def run() -> None:
            result = step()
            try:
                self._loop.call_soon_threadsafe(done, result)
            except RuntimeError:
                return  # The loop has closed.

        self._steps.put(run)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            step()

    def close(self) -> None:
        if self._thread is not None:
            self._steps.put(None)


class Handshake(Protocol):
    def give_up(self, reason: str) -> None: ...


class Handshakes:
    """Those in progress at one listener."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._stalled: dict[Handshake, None] = {}  # for bytes of their clients, in the order of the wait
        self._computing: set[Handshake] = set()

    def __len__(self) -> int:
        return len(self._stalled) + len(self._computing)

    def waits(self, handshake: Handshake) -> None:
        self._computing.discard(handshake)
        self._stalled[handshake] = None
        if len(self) <= self.limit:
            return
        oldest = next(iter(self._stalled))
        self.ended(oldest)
        oldest.give_up(f"ssl.handshakes.max ({self.limit}) is reached")

    def computes(self, handshake: Handshake) -> None:
        self._stalled.pop(handshake, None)
        self._computing.add(handshake)

    def ended(self, handshake: Handshake) -> None:
        self._stalled.pop(handshake, None)
        self._computing.discard(handshake)
