"""What a producer left behind that crashed: writes whose answers it did not live to see.

Owns the reading of its history. Without an event of theirs, a stall of the cluster would seem to end with the
crash of its client, and to begin again with the next one.
"""

from tidelog.lab.history import Event, HistoryWriter, now_us
from tidelog.lab.history_files import read_lines
from tidelog.lab.workload.jobs import Job

_OUTCOMES = ("acknowledged", "failed", "aborted")


def note_left_open(job: Job, history: HistoryWriter) -> None:
    """One failed write for each partition: the next of the last incarnation, sent when the one before it was
    answered. Whether it was sent, and whether it is there, no one knows, as with every failure. Of which
    transaction it is, is not known either.
    """
    now = now_us()
    for last in last_outcomes(list(read_lines(job.history))).values():
        history.add(
            "failed", now, producer=last.producer, sequence=(last.sequence or 0) + 1,
            partition=last.partition, sent_us=last.time_us,
        )  # fmt: skip


def last_outcomes(events: list[Event]) -> dict[int, Event]:
    """By partition, of the last incarnation that had any there: the one with its highest sequence, as of the
    time of the newest.
    """
    found: dict[int, Event] = {}
    for event in sorted((each for each in events if each.kind in _OUTCOMES), key=lambda each: each.time_us):
        before = found.get(event.partition or 0)
        if before is None or before.producer != event.producer or _number(event) >= _number(before):
            found[event.partition or 0] = event
    return found


def _number(event: Event) -> int:
    return event.sequence or 0
