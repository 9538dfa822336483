"""High watermarks and last stable offsets, as readers get them from one replica after another.

A replica never goes back while its process runs and it is not moved away; it never reports more than some
leader has committed, and never that more is stable than committed. Replicas may differ: a follower learns of
it later. It also learns later that records were given up: what it reports before it has agreed with a later
leader counts only up to where they begin. A replica with damaged records goes back to them once, when it
finds them and fetches them again.
"""

from collections.abc import Callable
from typing import Any

from tidelog.sim.checkers.violation import Violation

ANYWHERE = 1 << 62
Told = tuple[int, int]
"""(high watermark, last stable offset)"""


class Watermarks:
    """Of one partition, for one reader: it has one request at a time, so responses are in order."""

    def __init__(self, name: str, committed_end: Callable[[], int]) -> None:
        self._name = name
        self._committed_end = committed_end  # after the last record that any node considered committed
        self._told: dict[Any, Told] = {}  # by process
        self._damaged: dict[int, list[int]] = {}  # by broker: where its records are damaged

    def forget(self) -> None:
        """Records were given up, or a replica has truncated damaged ones: high watermarks may go back."""
        self._told.clear()

    def damaged(self, broker: int, offset: int) -> None:
        """The broker may find it at any time from now on."""
        self._damaged.setdefault(broker, []).append(offset)

    def _drops_damaged(self, broker: int, watermark: int) -> bool:
        """Once each: all that follow are removed with the first that is found."""
        offsets = self._damaged.get(broker, [])
        found = max((offset for offset in offsets if offset <= watermark), default=None)
        if found is not None:
            self._damaged[broker] = [offset for offset in offsets if offset < found]
        return found is not None

    def told(
        self, process: Any, broker: int, watermark: int, stable: int, binding_end: int = ANYWHERE
    ) -> None:
        """``binding_end``: beyond it, it may report what was given up."""
        before = self._told.get(process, (0, 0))
        goes_back = watermark < before[0] or stable < before[1]
        if goes_back and not (watermark < before[0] and self._drops_damaged(broker, watermark)):
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
