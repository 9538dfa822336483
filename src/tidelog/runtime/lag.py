"""How late the event loop is: the one figure that says whether a single-threaded broker is overloaded."""

import asyncio
import logging

logger = logging.getLogger(__name__)

INTERVAL_S = 0.1
WARN_FROM_S = 0.5


class LagMeter:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.last_s = 0.0
        self.max_s = 0.0  # since it was last asked for
        self.total_s = 0.0
        self.samples = 0

    def start(self) -> None:
        self._due = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(self._due, self._measure)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self) -> None:
        lag = max(0.0, self._loop.time() - self._due)
        self.last_s = lag
        self.max_s = max(self.max_s, lag)
        self.total_s += lag
        self.samples += 1
        if lag >= WARN_FROM_S:
            logger.warning("the event loop was held up for %.0f ms", lag * 1000)
        self.start()

    def take_max_s(self) -> float:
        largest, self.max_s = self.max_s, 0.0
        return largest
