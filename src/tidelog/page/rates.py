"""Records per second, from high watermarks that were read at different times. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping

from tidelog.client.messages import TopicPartition

HISTORY_POINTS = 120
WINDOW_S = 2.0  # Rates are averages over about this time.


class Meter:
    """The partitions that one broker leads."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, int] = {}
        self._samples: deque[tuple[float, dict[str, int]]] = deque()
        self.rates: dict[str, float] = {}

    def add(self, ends: Mapping[TopicPartition, int], now_s: float) -> list[TopicPartition]:
        """The partitions that grew since the last time."""
        grown: dict[str, int] = {}
        partitions = []
        for partition, end in ends.items():
            before = self._ends.get(partition, end)
            if end > before:
                grown[partition[0]] = grown.get(partition[0], 0) + end - before
                partitions.append(partition)
        self._ends = dict(ends)
        self._samples.append((now_s, grown))
        while len(self._samples) > 2 and self._samples[1][0] < now_s - WINDOW_S:
            self._samples.popleft()
        self.rates = self._average(now_s)
        return partitions

    def _average(self, now_s: float) -> dict[str, float]:
        begin_s = self._samples[0][0]
        if now_s <= begin_s:
            return {}
        sums: dict[str, int] = {}
        for _, grown in list(self._samples)[1:]:
            for topic, count in grown.items():
                sums[topic] = sums.get(topic, 0) + count
        return {topic: count / (now_s - begin_s) for topic, count in sums.items()}


class Histories:
    """One point a second, of all topics together ("") and of each that got records."""

    def __init__(self) -> None:
        self._points: dict[str, deque[float]] = {}

    def add(self, rates: Mapping[str, float]) -> None:
        for topic in {"", *rates, *self._points}:
            value = sum(rates.values()) if not topic else rates.get(topic, 0.0)
            points = self._points.setdefault(topic, deque(maxlen=HISTORY_POINTS))
            points.append(round(value, 1))
        for topic in list(self._idle()):
            del self._points[topic]

    def _idle(self) -> Iterator[str]:
        for topic, points in self._points.items():
            if topic and len(points) == HISTORY_POINTS and not any(points):
                yield topic

    def of(self, topic: str) -> list[float]:
        return list(self._points.get(topic, ()))
