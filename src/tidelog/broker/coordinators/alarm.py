"""One timer for many deadlines. The owner of the deadlines sets it to the earliest one."""

from collections.abc import Callable

from tidelog.services import Services, Timer


class Alarm:
    """Calls back once at the time it was last set to. Times are those of ``Services.uptime_ms``."""

    __slots__ = ("_callback", "_services", "_set_to_ms", "_timer")

    def __init__(self, services: Services, callback: Callable[[], None]) -> None:
        self._services = services
        self._callback = callback
        self._timer: Timer | None = None
        self._set_to_ms = 0.0

    def set(self, at_ms: float | None) -> None:
        """Fire at ``at_ms``; None cancels. Cheap if the alarm is already set to that time."""
        if at_ms is None:
            self.cancel()
            return
        if self._timer is not None:
            # Firing early is harmless, while moving the timer with every heartbeat has a cost.
            if self._set_to_ms <= at_ms:
                return
            self._timer.cancel()
        self._set_to_ms = at_ms
        self._timer = self._services.later(max(0.0, at_ms - self._services.uptime_ms()), self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()
