"""The services of a real process: event loop, clock and threads."""

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

WORKERS = 4  # threads that wait for the disk; they use little CPU time
COMPUTERS = 2  # threads; Python runs one at a time, but long work must not delay short work
GIVE_WAY_S = 0.001  # pause of a computing thread, because Python runs one thread at a time
SLICES_S = 0.004  # for slices of long work, before something new is read
URGENT_S = 0.002  # the part of it for the cluster's work: after so long, no further slice of that is begun

# Goes on while the machine is suspended, unlike the monotonic clock of Linux: a leader whose laptop or
# virtual machine wakes up must not believe in the session that it had before.
UPTIME_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LoopServices:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="disk")
        self._computer = ThreadPoolExecutor(COMPUTERS, thread_name_prefix="compute")
        self._login = ThreadPoolExecutor(1, thread_name_prefix="login")
        self._slices: deque[Callable[[], None]] = deque()  # slices of long work that wait for their turn
        self._urgent: deque[Callable[[], None]] = deque()  # those of the cluster's work, which go first
        self._has_turn = False  # The next slices are scheduled.

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def uptime_ms(self) -> int:
        return time.clock_gettime_ns(UPTIME_CLOCK) // 1_000_000

    def new_uuid(self) -> uuid.UUID:
        return uuid.uuid4()

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def in_turn(self, callback: Callable[[], None], *, urgent: bool = False) -> None:
        (self._urgent if urgent else self._slices).append(callback)
        self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._take_slices)

    def _take_slices(self) -> None:
        """As many as fit into ``SLICES_S``. However much work of the cluster there is, at least one slice of
        other work has its turn, too.
        """
        began = time.monotonic()
        try:
            _take(self._urgent, began + URGENT_S)
        finally:
            try:
                _take(self._slices, began + SLICES_S)
            finally:
                self._has_turn = False
                if self._urgent or self._slices:
                    self._ask_for_turn()

    def later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)

    def perturb(self, name: str) -> bool:
        return False

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._workers.submit(self._task(work, done))

    def compute(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Like :meth:`offload`, but for CPU-bound work, so that disk work does not wait for it. ``work`` must
        call :func:`give_way` about once a millisecond.
        """
        self._computer.submit(self._task(work, done))

    def compute_login(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """For passwords of clients that are not authenticated yet: other work does not wait for them."""
        self._login.submit(self._task(work, done))

    def _task(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        def run() -> None:
            result: T | BaseException
            try:
                result = work()
            except BaseException as error:
                result = error
            try:
                self._loop.call_soon_threadsafe(done, result)
            except RuntimeError:
                logger.debug("the loop closed before a thread was done")

        return run

    def close(self) -> None:
        self._computer.shutdown(wait=True, cancel_futures=True)
        self._login.shutdown(wait=True, cancel_futures=True)
        self._workers.shutdown(wait=True)


def _take(slices: deque[Callable[[], None]], until: float) -> None:
    """Call the slices that have waited longest: one at least, and none that was added meanwhile."""
    for _ in range(len(slices)):
        slices.popleft()()
        if time.monotonic() >= until:
            break


def give_way() -> None:
    """Called by a computing thread, so that the event loop can run."""
    time.sleep(GIVE_WAY_S)
