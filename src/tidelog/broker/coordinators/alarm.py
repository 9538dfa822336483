"""One timer for many deadlines: whoever has them keeps the earliest set here."""

from collections.abc import Callable

from tidelog.services import Services, Timer


class Alarm:
    """Calls back once when the time it was last set to has come. Times are of ``Services.uptime_ms``."""

    __slots__ = ("_callback", "_services", "_set_to_ms", "_timer")

    def __init__(self, services: Services, callback: Callable[[], None]) -> None:
        self._services = services
        self._callback = callback
        self._timer: Timer | None = None
        self._set_to_ms = 0.0

    def set(self, at_ms: float | None) -> None:
        """Ring at ``at_ms``, or never. Cheap when it is set to that already."""
        if at_ms is None:
            self.cancel()
            return
        if self._timer is not None:
            # Ringing early is harmless, and moving the timer with every heartbeat is not free.
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
