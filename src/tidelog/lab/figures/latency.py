"""Latency of acknowledged writes, and how many there were per second."""

from collections.abc import Sequence

from tidelog.lab.figures.events import Windows
from tidelog.lab.history import Event
from tidelog.lab.results import Latency


def percentile(ordered: Sequence[int], share: float) -> float:
    """The smallest value that at least this share of them does not exceed, as Spark's percentile_approx."""
    place = min(max(-int(-share * len(ordered) // 1), 1), len(ordered))
    return float(ordered[place - 1])


def latency(acknowledged: Sequence[Event], from_us: int, to_us: int) -> Latency:
    """Of those that were sent in this window: what waited during a fault belongs to it, whenever it ended."""
    taken = sorted(
        event.time_us - event.sent_us
        for event in acknowledged
        if event.sent_us is not None and from_us <= event.sent_us < to_us
    )
    if not taken:
        return Latency()
    p50, p99, p999 = (percentile(taken, share) / 1e3 for share in (0.5, 0.99, 0.999))
    return Latency(p50=p50, p99=p99, p999=p999)


def records_per_s(acknowledged: Sequence[Event], windows: Windows) -> float:
    seconds = (windows.end_us - windows.steady_us) / 1e6
    count = sum(windows.steady_us <= event.time_us < windows.end_us for event in acknowledged)
    return count / seconds if seconds > 0 else 0.0
