"""Simulated time: events in order, chance from a seed, and a trace of what happened."""

import heapq
import random
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")

TRACE_KEPT = 4000  # lines; older ones only count for the digest


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = 1_700_000_000_000.0  # Some day in 2023: records need a plausible time.
        self.started_ms = self.now_ms
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_KEPT)
        self._digest = sha256()

    @property
    def elapsed_ms(self) -> float:
        return self.now_ms - self.started_ms

    def note(self, line: str) -> None:
        """A line of the trace. Whatever decides anything must be told here, or two runs could differ
        unseen.
        """
        text = f"{self.elapsed_ms:10.1f} {line}"
        self.trace.append(text)
        self._digest.update(text.encode())

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def at(self, time_ms: float, callback: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (max(time_ms, self.now_ms), self._sequence, callback))

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, callback)

    def run_until(self, time_ms: float, *, stop: Callable[[], bool] | None = None) -> None:
        """Let everything happen up to ``time_ms``, or until ``stop`` says so."""
        while self._events and self._events[0][0] <= time_ms:
            if stop is not None and stop():
                return
            self.now_ms, _, callback = heapq.heappop(self._events)
            self.steps += 1
            callback()
        self.now_ms = max(self.now_ms, time_ms)

    def uuid(self) -> UUID:
        return UUID(int=self.chance.getrandbits(128), version=4)


class SimTimer:
    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SimServices:
    """Time and threads of one simulated process. When the process dies, nothing it planned happens any
    more.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.alive = True
        self.paused = False
        self._held: list[Callable[[], None]] = []  # what became due while the process was frozen
        self.clock_offset_ms = 0.0
        self.disk_delay_ms = (0.05, 2.0)

    def now_ms(self) -> int:
        return int(self._world.now_ms + self.clock_offset_ms)

    def new_uuid(self) -> UUID:
        return self._world.uuid()

    def soon(self, callback: Callable[[], None]) -> None:
        self._world.after(0.0, lambda: self.run(callback))

    def later(self, delay_ms: float, callback: Callable[[], None]) -> SimTimer:
        timer = SimTimer()

        def due() -> None:
            if not timer.cancelled:
                self.run(callback)

        self._world.after(delay_ms, due)
        return timer

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """The work happens somewhere in between: a crash may come before it, or between it and its answer."""
        low, high = self.disk_delay_ms
        first, second = self._world.chance.uniform(low, high), self._world.chance.uniform(0.01, low + 0.01)

        def do() -> None:
            if not self.alive:
                return
            result: T | BaseException
            try:
                result = work()
            except Exception as error:
                result = error
            self._world.after(second, lambda: self.run(lambda: done(result)))

        self._world.after(first, do)

    def run(self, callback: Callable[[], None]) -> None:
        """Everything a process does, it does through here."""
        if not self.alive:
            return
        if self.paused:
            self._held.append(callback)
        else:
            callback()

    def die(self) -> None:
        self.alive = False
        self._held.clear()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for callback in held:
            self.soon(callback)
