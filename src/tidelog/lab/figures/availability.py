"""How long partitions took no writes, and returned no records, as the clients saw it.

Owns the meaning of a wait. A wait for writes begins with the oldest write without an answer, or with the last
acknowledgement if that is later: a load that pauses waits for nothing. A wait for reads begins when the next
record for the reader was acknowledged, or with the last record that was read. Waits before the fault do not
count. The plain client (:mod:`tidelog.lab.workload.plain`) says which part of a wait was the client's own.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.lab.figures.events import TopicEvents, Windows, by_partition
from tidelog.lab.history import Event

UNWATCHED_MAX_US = 2_000_000  # of back-off in a partition that the plain client does not watch
SILENT_US = 1_000_000  # the plain client never pauses for so long


class Wait(NamedTuple):
    from_us: int
    to_us: int
    partition: int = 0

    @property
    def length_us(self) -> int:
        return max(self.to_us - self.from_us, 0)


NONE = Wait(0, 0)


class Availability(NamedTuple):
    writes_s: float
    reads_s: float
    back_off_s: float  # of the time without writes
    unserved_reads_s: float  # by the plain client


def availability(events: TopicEvents, windows: Windows) -> Availability:
    writes = longest(write_waits(events.of("acknowledged", "failed", "aborted")), windows.fault_start_us)
    reads = longest(_read_waits(events, windows), windows.fault_start_us)
    plain_reads = longest(_plain_waits(events.of("plain-read"), windows.end_us), windows.fault_start_us)
    return Availability(
        writes.length_us / 1e6,
        max(reads.length_us, plain_reads.length_us) / 1e6,
        _back_off_us(writes, events.of("plain-write")) / 1e6,
        plain_reads.length_us / 1e6,
    )


def longest(waits: Iterable[Wait], since_us: int) -> Wait:
    """Of those that ended later, each from that moment on."""
    clipped = (wait._replace(from_us=max(wait.from_us, since_us)) for wait in waits if wait.to_us > since_us)
    return max(clipped, key=lambda wait: wait.length_us, default=NONE)


def write_waits(responses: Sequence[Event]) -> list[Wait]:
    """Between two acknowledgements of a partition: the second, with the failures before it. The last one of a
    partition may consist of failures only.
    """
    found = []
    for partition, mine in by_partition(responses).items():
        oldest = _oldest_pending(mine)
        before_us = first = 0
        for place, event in enumerate(mine):
            if event.kind == "acknowledged" or place == len(mine) - 1:
                found.append(Wait(max(before_us, oldest[first]), event.time_us, partition))
                before_us, first = event.time_us, place + 1
    return found


def _oldest_pending(responses: Sequence[Event]) -> list[int]:
    """For each answer: when the oldest of it and all later ones was sent."""
    oldest = [0] * len(responses)
    least = 1 << 62
    for place in range(len(responses) - 1, -1, -1):
        sent = responses[place].sent_us
        least = min(least, responses[place].time_us if sent is None else sent)
        oldest[place] = least
    return oldest


def _read_waits(events: TopicEvents, windows: Windows) -> list[Wait]:
    acknowledged = {
        (event.partition or 0, event.producer, event.sequence): event.time_us
        for event in events.of("acknowledged")
    }
    found: list[Wait] = []
    by_group: dict[tuple[str, int], list[Event]] = {}
    for event in events.of("consumed", "consumed-raw"):
        by_group.setdefault((event.reader or "", event.partition or 0), []).append(event)
    for (_, partition), mine in by_group.items():
        found += _waits_of_reader(partition, mine, acknowledged, windows.end_us)
    return found


def _waits_of_reader(
    partition: int,
    consumed: Sequence[Event],
    acknowledged: dict[tuple[int, str | None, int | None], int],
    end_us: int,
) -> Iterable[Wait]:
    before_us = consumed[0].time_us
    seen = set()
    for event in consumed:
        key = (partition, event.producer, event.sequence)
        seen.add(key)
        ready_us = acknowledged.get(key)
        if ready_us is not None and event.time_us > max(before_us, ready_us):
            yield Wait(max(before_us, ready_us), event.time_us, partition)
        before_us = event.time_us
    left = [at for key, at in acknowledged.items() if key[0] == partition and key not in seen]
    if left and end_us > max(before_us, min(left)):
        yield Wait(max(before_us, min(left)), end_us, partition)


def _plain_waits(successes: Sequence[Event], end_us: int) -> Iterable[Wait]:
    """The times in which the plain client tried; the last one may have no success at its end."""
    for partition, mine in by_partition(successes).items():
        before_us = mine[0].time_us
        for event in mine:
            since_us = event.time_us if event.sent_us is None else event.sent_us
            if since_us - before_us > SILENT_US:  # It was not there: what happened meanwhile is not known.
                since_us = before_us
            yield Wait(since_us, event.time_us, partition)
            before_us = event.time_us
        last_us = mine[-1].time_us
        if end_us - last_us > SILENT_US:
            yield Wait(last_us, end_us, partition)


def _back_off_us(wait: Wait, plain: Sequence[Event]) -> int:
    """The wait without the longest time in it in which the plain client tried in vain, too."""
    if not plain:
        return 0  # nothing is watched: everything counts as the cluster's
    mine = [event for event in plain if (event.partition or 0) == wait.partition]
    unserved = max(
        min(tried.to_us, wait.to_us) - max(tried.from_us, wait.from_us)
        for tried in _plain_waits(mine or plain, wait.to_us)
    )
    back_off = wait.length_us - max(unserved, 0)
    # Of many partitions some are watched. The others are taken for as available as the worst of those, but
    # not for long: this one may be in trouble by itself.
    return back_off if mine else min(back_off, UNWATCHED_MAX_US)
