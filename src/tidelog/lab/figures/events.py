"""The events of one topic in one round, sorted by kind.

Owns the selection. Everything else here works on it, and knows neither files nor clocks.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.lab.history import Event


class Windows(NamedTuple):
    """The parts of a round, by the history's clock. Without a fault, ``fault_start_us`` and ``fault_end_us``
    are ``end_us``.
    """

    steady_us: int
    fault_start_us: int
    fault_end_us: int
    end_us: int


class TopicEvents:
    """Each list is in the order of time."""

    def __init__(self, events: Iterable[Event], topic: str | None) -> None:
        """``topic`` None: all events, as in a history of one topic that does not name it."""
        self._by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            if topic is None or event.topic is None or event.topic == topic:
                self._by_kind[event.kind].append(event)
        for found in self._by_kind.values():
            found.sort(key=lambda event: event.time_us)

    def of(self, *kinds: str) -> list[Event]:
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return sorted(
            (event for kind in kinds for event in self._by_kind.get(kind, [])),
            key=lambda event: event.time_us,
        )


def by_partition(events: Iterable[Event]) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        found[event.partition or 0].append(event)
    return found
