"""Memory for large requests: who waits, and who is closed when others wait for long."""

from types import SimpleNamespace
from typing import Any, cast

from tidelog.runtime.server import SCARCE_S, RequestMemory


class Loop:
    """Timers fire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Any) -> object:
        self.timers.append(callback)
        return callback

    def call_soon(self, callback: Any) -> None:
        callback()

    def pass_time(self, seconds: float = SCARCE_S) -> None:
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


class Sender:
    """A connection that receives a large request."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self.held_bytes = 0
        self.in_the_middle = True
        self.closed = False
        self.short_of_memory = False

    def send(self, count: int) -> bool:
        self.held_bytes += count
        self.short_of_memory = not self._memory.hold(count, cast(Any, self))
        return not self.short_of_memory

    def close(self, reason: str) -> None:
        self.closed = True
        self._memory.release(self.held_bytes, cast(Any, self))

    def memory_freed(self) -> None:
        self.short_of_memory = False


def memory(limit: int = 100) -> tuple[Loop, RequestMemory]:
    loop = Loop()
    broker = SimpleNamespace(config=SimpleNamespace(queued_max_request_bytes=limit))
    return loop, RequestMemory(cast(Any, broker), cast(Any, loop))


def test_slow_requests_are_closed_while_others_wait() -> None:
    loop, shared = memory()
    slow = [Sender(shared) for _ in range(3)]
    assert all(each.send(33) for each in slow)
    victim = Sender(shared)
    assert not victim.send(2)
    loop.pass_time()
    assert [each.closed for each in slow] == [True, True, False]
    assert not victim.short_of_memory
    assert not victim.closed


def test_nobody_is_closed_while_nobody_waits() -> None:
    loop, shared = memory()
    slow = [Sender(shared) for _ in range(3)]
    assert all(each.send(33) for each in slow)
    loop.pass_time()
    assert not any(each.closed for each in slow)


def test_complete_requests_are_not_closed() -> None:
    loop, shared = memory()
    handled, victim = Sender(shared), Sender(shared)
    handled.send(150)
    handled.in_the_middle = False
    assert not victim.send(2)
    loop.pass_time()
    assert not handled.closed
    assert not victim.closed


def test_the_next_ones_are_closed_later() -> None:
    """Each has its time, however long others have waited."""
    loop, shared = memory()
    slow, next_slow = Sender(shared), Sender(shared)
    slow.send(60)
    next_slow.send(30)
    assert not Sender(shared).send(20)
    slow.close("done")
    loop.now += SCARCE_S / 2
    late = Sender(shared)
    late.send(50)
    assert not Sender(shared).send(20)
    loop.pass_time(SCARCE_S / 2)
    assert (next_slow.closed, late.closed) == (True, False)
