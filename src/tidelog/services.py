"""What the environment provides to a broker: time, randomness, timers and threads."""

from collections.abc import Callable
from typing import Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Services(Protocol):
    def now_ms(self) -> int:
        """Wall clock, for timestamps and retention. It may jump."""

    def uptime_ms(self) -> int:
        """A monotonic clock, for all timeouts: setting the wall clock must not fence a broker."""

    def new_uuid(self) -> UUID: ...

    def soon(self, callback: Callable[[], None]) -> None:
        """After everything that is ready now, before anything new is read."""

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        """Like :meth:`soon`, for one slice of long work. Slices are taken in their order, and only a few of
        them before something new is read: together they must not hold the event loop. ``urgent``: for work of
        the cluster (metadata, roles, leaders), which waits for other work of the cluster only.
        """

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Timer: ...

    def perturb(self, name: str) -> bool:
        """Whether to do something here that is unusual and allowed: to be late, to take less at a time, to do
        at once what could wait. Always False in a real process; a simulation draws it from its seed. Not for
        code that runs with every request.
        """

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run ``work`` in a thread; ``done`` gets its result or its exception, in order with events."""


def ignore(*_: object) -> None:
    """For a port without a listener."""
