"""The time line of one topic in one round: columns of equal length, for a picture."""

from collections.abc import Sequence

from tidelog.lab.figures.events import TopicEvents, Windows
from tidelog.lab.history import Event
from tidelog.lab.results import Band, TimeLine

STEP_S = 0.1


def time_line(events: TopicEvents, windows: Windows, step_s: float = STEP_S) -> TimeLine:
    start, step = windows.steady_us, int(step_s * 1e6)
    count = max(-(-(windows.end_us - start) // step), 1)
    return TimeLine(
        step_s=step_s,
        start_s=0.0,
        acknowledged=_counts(events.of("acknowledged"), start, step, count),
        received=_counts(events.of("consumed", "consumed-raw"), start, step, count),
        latency_ms=_worst(events.of("acknowledged"), start, step, count),
        leader=_leaders(events.of("leader"), start, step, count),
        faults=bands(events.of("fault", "healed"), start),
    )


def _counts(events: Sequence[Event], start: int, step: int, count: int) -> tuple[int, ...]:
    found = [0] * count
    for event in events:
        place = (event.time_us - start) // step
        if 0 <= place < count:
            found[place] += 1
    return tuple(found)


def _worst(events: Sequence[Event], start: int, step: int, count: int) -> tuple[float | None, ...]:
    """By the moment of the acknowledgement, like the counts."""
    found: list[float | None] = [None] * count
    for event in events:
        place = (event.time_us - start) // step
        if event.sent_us is not None and 0 <= place < count:
            found[place] = max(found[place] or 0.0, (event.time_us - event.sent_us) / 1e3)
    return tuple(found)


def _leaders(samples: Sequence[Event], start: int, step: int, count: int) -> tuple[int, ...]:
    """At the end of each step: the newest sample until then."""
    found = []
    leader, place = -1, 0
    for number in range(count):
        until = start + (number + 1) * step
        while place < len(samples) and samples[place].time_us < until:
            leader = -1 if samples[place].broker is None else samples[place].broker or 0
            place += 1
        found.append(leader)
    return tuple(found)


def bands(events: Sequence[Event], start: int) -> tuple[Band, ...]:
    """A fault ends with the next event ``healed`` of its name, or of no name that began."""
    begun: dict[str, list[int]] = {}
    found: list[Band] = []
    for event in events:
        name, at = event.name or "fault", (event.time_us - start) / 1e6
        if event.kind == "fault":
            begun.setdefault(name, []).append(len(found))
            found.append(Band(name=name, start_s=at))
            continue
        open_ones = begun.get(name) or next((places for places in begun.values() if places), [])
        if open_ones:
            place = open_ones.pop(0)
            found[place] = Band(name=found[place].name, start_s=found[place].start_s, end_s=at)
    return tuple(found)
