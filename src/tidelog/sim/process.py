"""Time and threads of one simulated process, with a clock of its own.

A process has two clocks: the wall clock, which drifts and may be set forward or back at any time, and the
monotonic one, which only drifts. Timers use the monotonic one.
"""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from tidelog.sim.perturbations import Perturbations
from tidelog.sim.world import BEGINS_MS, World

T = TypeVar("T")


class Clock:
    """Of one machine: it outlives the process."""

    __slots__ = ("_world", "jumped_ms", "shown_ms", "since_ms", "speed")

    def __init__(self, world: World) -> None:
        self._world = world
        self.speed = 1.0  # Its speed: 1.01 gains one second in a hundred.
        self.jumped_ms = 0.0  # By how much the wall clock was set.
        self.since_ms = BEGINS_MS  # When its speed last changed,
        self.shown_ms = 0.0  # and the monotonic clock at that time.

    def run_at(self, speed: float) -> None:
        self.shown_ms, self.since_ms = self.steady_ms(), self._world.now_ms
        self.speed = speed

    def steady_ms(self) -> float:
        return self.shown_ms + (self._world.now_ms - self.since_ms) * self.speed

    def wall_ms(self) -> float:
        return BEGINS_MS + self.steady_ms() + self.jumped_ms


class SimTimer:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def __call__(self) -> None:
        if self._callback is not None:
            self._callback()


class SimServices:
    """After the process dies, none of its timers fires."""

    def __init__(self, world: World, clock: Clock | None = None) -> None:
        self._world = world
        self.clock = clock or Clock(world)
        self.alive = True
        self.paused = False
        self._held: list[Callable[[], None]] = []  # what became due while the process was frozen
        self.disk_delay_ms = (0.05, 2.0)
        self.perturbations: Perturbations | None = None

    def now_ms(self) -> int:
        return int(self.clock.wall_ms())

    def uptime_ms(self) -> int:
        # Inlined: the most frequent call.
        clock = self.clock
        return int(clock.shown_ms + (self._world.now_ms - clock.since_ms) * clock.speed)

    def new_uuid(self) -> UUID:
        return self._world.uuid()

    def soon(self, callback: Callable[[], None]) -> None:
        self._world.soon(callback, self)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> SimTimer:
        timer = SimTimer(callback)
        self._world.after(delay_ms / self.clock.speed, timer, self)
        return timer

    def perturb(self, name: str) -> bool:
        return self.perturbations is not None and self.perturbations.strike(name)

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """The work happens somewhere in between: a crash may come before it, or between it and its result."""
        world, (low, high) = self._world, self.disk_delay_ms
        answer_ms = world.chance.uniform(0.01, low + 0.01)

        def do() -> None:
            result: T | BaseException
            try:
                result = work()
            except Exception as error:
                result = error
            world.after(answer_ms, lambda: done(result), self)

        world.after(world.chance.uniform(low, high), do, self)

    def run(self, callback: Callable[[], None]) -> None:
        """Everything that a process does apart from its own timers goes through here."""
        if self.alive:
            if self.paused:
                self._held.append(callback)
            else:
                callback()

    def hold(self, callback: Callable[[], None]) -> None:
        self._held.append(callback)

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
