"""Events that were made up, in milliseconds since a start."""

from typing import Any

from tidelog.lab.figures import TopicEvents, Windows
from tidelog.lab.history import Event

START = 1_780_000_000_000_000
WINDOWS = Windows(START, START + 1_000_000, START + 2_000_000, START + 3_000_000)


def event(kind: str, ms: float, sent: float | None = None, **said: Any) -> Event:
    sent_us = None if sent is None else START + int(sent * 1000)
    return Event(kind, START + int(ms * 1000), "r", "m", topic="t", sent_us=sent_us, **said)


def write(
    kind: str, sequence: int, ms: float, sent: float | None = None, *, partition: int = 0, **said: Any
) -> Event:
    said = {"producer": "p", "sequence": sequence, "partition": partition} | said
    return event(kind, ms, ms - 5 if sent is None else sent, **said)


def read(kind: str, sequence: int, ms: float, offset: int, *, partition: int = 0, **said: Any) -> Event:
    said = {"producer": "p", "sequence": sequence, "partition": partition, "offset": offset} | said
    return event(kind, ms, None, **said)


def topic(*events: Event) -> TopicEvents:
    return TopicEvents(events, "t")
