"""Memory for large requests: who waits, and who is closed when others wait for long."""

from types import SimpleNamespace
from typing import Any, cast

from tidelog.runtime.large_requests import HUGE_BYTES
from tidelog.runtime.request_memory import (
    READ_BYTES_MIN,
    SCARCE_S,
    WOKEN_PER_TURN,
    MemoryShare,
    RequestMemory,
)


class Loop:
    """Timers fire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Any] = []
        self.soon: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Any) -> object:
        self.timers.append(callback)
        return callback

    def call_soon(self, callback: Any) -> None:
        self.soon.append(callback)

    def turn(self) -> int:
        """Run what was scheduled. Returns how much that was."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        return len(soon)

    def pass_time(self, seconds: float = SCARCE_S) -> None:
        self.now += seconds
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


class Sender:
    """A connection that receives a large request."""

    def __init__(self, memory: RequestMemory) -> None:
        self.memory = MemoryShare(memory)
        self.in_the_middle = True
        self.closed = False
        self.times_told = 0

    def send(self, count: int) -> bool:
        return self.memory.hold(count, self)

    def close(self, reason: str) -> None:
        self.closed = True
        self.memory.release(self)

    def memory_freed(self) -> None:
        self.times_told += 1


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
    loop.turn()
    assert not victim.memory.is_short
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


def test_the_end_of_a_request_costs_the_same_however_many_wait() -> None:
    """Clients that have not authenticated could have the broker work for each pair of them otherwise."""
    loop, shared = memory()
    first = Sender(shared)
    assert first.send(200)
    waiting = [Sender(shared) for _ in range(1000)]
    assert not any(each.send(1) for each in waiting)
    for ended in waiting[-500:]:
        ended.close("gone")
    assert loop.turn() == 1
    assert not any(each.times_told for each in waiting)
    first.close("done")
    # The oldest may always go on, so that one request can be completed.
    assert loop.turn() == 1
    assert [each.times_told for each in waiting[:500]] == [1] + [0] * 499


def test_those_that_wait_continue_a_few_at_a_time_while_there_is_room() -> None:
    loop, shared = memory(READ_BYTES_MIN)
    first = Sender(shared)
    assert first.send(READ_BYTES_MIN)
    waiting = [Sender(shared) for _ in range(3 * WOKEN_PER_TURN)]
    assert not any(each.send(1) for each in waiting)
    first.close("done")
    turns = 0
    while loop.turn():
        turns += 1
    assert turns >= 3
    assert [each.times_told for each in waiting] == [1] * len(waiting)


def test_those_that_wait_are_not_forgotten_if_the_room_is_used_up_again() -> None:
    loop, shared = memory()
    oldest, other = Sender(shared), Sender(shared)
    assert oldest.send(60)
    assert other.send(40)
    waiting = Sender(shared)
    assert not waiting.send(10)
    loop.timers.clear()
    shared._timer = None  # It was over, and there was nothing to close yet.
    other.close("done")
    assert oldest.send(60)
    loop.turn()
    assert waiting.memory.is_short
    loop.pass_time()
    loop.turn()
    assert oldest.closed
    assert not waiting.memory.is_short


def test_a_connection_receives_no_more_than_there_is_room_for() -> None:
    _, shared = memory(1 << 20)
    assert shared.readable_bytes(500_000) == 500_000
    assert Sender(shared).send(900_000)
    assert shared.readable_bytes(500_000) == (1 << 20) - 900_000
    Sender(shared).send(900_000)
    assert shared.readable_bytes(500_000) == READ_BYTES_MIN
    assert shared.readable_bytes(10) == 10
    assert memory(-1)[1].readable_bytes(500_000) == 500_000


def test_a_share_moves_with_what_it_is_used_for() -> None:
    _, strangers = memory(10_000)
    _, clients = memory(10_000)
    sender = Sender(strangers)
    assert sender.send(6_000)
    assert strangers.readable_bytes(10_000) == READ_BYTES_MIN
    sender.memory.move(clients, sender)
    assert (sender.memory.held_bytes, sender.memory.pool) == (0, clients)
    assert (strangers.readable_bytes(10_000), clients.readable_bytes(10_000)) == (10_000, 10_000)


def test_the_end_of_a_huge_request_lets_the_next_one_begin() -> None:
    _, found = memory()
    done: list[None] = []
    large = cast(Any, SimpleNamespace(done=lambda: done.append(None)))
    sender = Sender(found)
    sender.memory.begin(HUGE_BYTES - 1, large)
    sender.memory.release(sender)
    assert not done
    sender.memory.begin(HUGE_BYTES, large)
    sender.memory.release(sender)
    sender.memory.release(sender)
    assert len(done) == 1
