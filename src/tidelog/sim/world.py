"""Simulated time: events in order, randomness from a seed, and a trace.

Everything in a simulation is an event in this queue. An event may belong to a process
(:class:`~tidelog.sim.process.SimServices`): a dead process does nothing, and events of a frozen one wait for
it.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from heapq import heappop, heappush
from typing import Protocol
from uuid import UUID

TRACE_KEPT = 4000  # lines; older ones only count for the digest
HASHED_AT_ONCE = 256  # lines
BEGINS_MS = 1_700_000_000_000.0  # Some day in 2023: records need a plausible time.


class Process(Protocol):
    """The owner of an event."""

    alive: bool
    paused: bool

    def hold(self, callback: Callable[[], None]) -> None: ...


Event = tuple[float, int, Process | None, Callable[[], None]]
"""When, in which order among events of the same time, whose, what."""


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = BEGINS_MS
        self._events: list[Event] = []  # a heap
        self._soon: deque[Event] = deque()  # of the time they were planned at: already in order
        self._sequence = 0
        self.steps = 0
        self.trace: deque[str] = deque(maxlen=TRACE_KEPT)
        self._digest = sha256()
        self._unhashed: list[str] = []  # lines that the digest lacks

    @property
    def elapsed_ms(self) -> float:
        return self.now_ms - BEGINS_MS

    def note(self, line: str) -> None:
        """A line of the trace. Every decision must be told here, or two runs could differ unseen."""
        text = f"{self.now_ms - BEGINS_MS:10.1f} {line}"
        self.trace.append(text)
        self._unhashed.append(text)
        if len(self._unhashed) >= HASHED_AT_ONCE:
            self._hash()

    def _hash(self) -> None:
        self._digest.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    def digest(self) -> str:
        """Of the whole trace, and of the random state: a run that drew one number more is another run."""
        self._hash()
        found = self._digest.copy()
        found.update(f"{self.steps} {self.now_ms} {self.chance.getstate()}".encode())
        return found.hexdigest()[:16]

    def at(self, time_ms: float, callback: Callable[[], None], process: Process | None = None) -> None:
        self._sequence += 1
        due_ms = time_ms if time_ms > self.now_ms else self.now_ms
        heappush(self._events, (due_ms, self._sequence, process, callback))

    def after(self, delay_ms: float, callback: Callable[[], None], process: Process | None = None) -> None:
        self._sequence += 1
        heappush(self._events, (self.now_ms + delay_ms, self._sequence, process, callback))

    def soon(self, callback: Callable[[], None], process: Process | None = None) -> None:
        """The same with no delay, which is the most common case."""
        self._sequence += 1
        self._soon.append((self.now_ms, self._sequence, process, callback))

    def run_until(self, time_ms: float) -> None:
        """Run everything up to ``time_ms``."""
        events, soon, pop, steps = self._events, self._soon, heappop, 0
        try:
            while True:
                if soon and (not events or soon[0] < events[0]):
                    self.now_ms, _, process, callback = soon.popleft()
                elif events and events[0][0] <= time_ms:
                    self.now_ms, _, process, callback = pop(events)
                else:
                    break
                if process is not None:
                    if not process.alive:
                        continue
                    if process.paused:
                        process.hold(callback)
                        continue
                steps += 1
                callback()
        finally:
            self.steps += steps
        self.now_ms = max(self.now_ms, time_ms)

    def run_while(self, condition: Callable[[], bool], patience_ms: float, step_ms: float = 100) -> bool:
        """Continue while ``condition`` holds, for a limited time; returns whether it ended."""
        end_ms = self.now_ms + patience_ms
        while condition():
            if self.now_ms >= end_ms:
                return False
            self.run_until(min(end_ms, self.now_ms + step_ms))
        return True

    def reshuffle(self, luck: int) -> None:
        """Other random choices with the same seed; 0 is its own."""
        if luck:
            self.chance.seed(f"luck {luck} {self.seed}")

    @contextmanager
    def apart(self, name: str) -> Iterator[random.Random]:
        """A random source for this name, from the seed: however much is drawn from it, the rest of the run
        draws the same.
        """
        before = self.chance.getstate()
        self.chance.seed(f"{name} {self.seed}")
        try:
            yield self.chance
        finally:
            self.chance.setstate(before)

    def uuid(self) -> UUID:
        return UUID(int=self.chance.getrandbits(128), version=4)
