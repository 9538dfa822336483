"""The event loop, clock and threads of a real process, as the broker asks for them."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

WORKERS = 4  # threads that wait for the disk; they compute nothing


class LoopServices:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="disk")

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def uptime_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def new_uuid(self) -> uuid.UUID:
        return uuid.uuid4()

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)

    def perturb(self, name: str) -> bool:
        return False

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        def run() -> None:
            result: T | BaseException
            try:
                result = work()
            except BaseException as error:
                result = error
            try:
                self._loop.call_soon_threadsafe(done, result)
            except RuntimeError:
                logger.debug("the loop closed before a disk thread was done")

        self._workers.submit(run)

    def close(self) -> None:
        self._workers.shutdown(wait=True)
