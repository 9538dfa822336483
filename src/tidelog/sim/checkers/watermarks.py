"""Watermarks and last stable offsets, as readers are told them by one replica after the other.

One process never goes back, whoever it tells; it never tells more than what some leader has committed, and
never that more is stable than committed. Different replicas may differ: a follower hears of it later. It also
hears later that records were given up: what it tells before it has agreed with a leader that came since binds
it only up to where they begin.
"""

from collections.abc import Callable
from typing import Any

from tidelog.sim.checkers.violation import Violation

ANYWHERE = 1 << 62
Told = tuple[int, int]
"""(high watermark, last stable offset)"""


class Watermarks:
    """Of one partition, for one reader: it asks one question at a time, so answers come in order."""

    def __init__(self, name: str, committed_end: Callable[[], int]) -> None:
        self._name = name
        self._committed_end = committed_end  # behind the last record that anybody took for committed
        self._told: dict[Any, Told] = {}  # by process

    def forget(self) -> None:
        """Records were given up, or a replica has dropped damaged ones: watermarks may go back."""
        self._told.clear()

    def told(
        self, process: Any, broker: int, watermark: int, stable: int, binding_end: int = ANYWHERE
    ) -> None:
        """``binding_end``: what it tells beyond may be what was given up."""
        before = self._told.get(process, (0, 0))
        if watermark < before[0] or stable < before[1]:
            raise Violation(
                f"{self._name}: broker {broker} told a watermark and a last stable offset of {before}, and "
                f"then of {(watermark, stable)}"
            )
        if stable > watermark:
            raise Violation(
                f"{self._name}: broker {broker} told that all before {stable} is stable, and that all before "
                f"{watermark} is committed"
            )
        if watermark > self._committed_end():
            raise Violation(
                f"{self._name}: broker {broker} told a watermark of {watermark}, and nobody has committed "
                f"more than {self._committed_end()}"
            )
        self._told[process] = min(watermark, binding_end), min(stable, binding_end)
