"""Events of a round to figures, without Spark.

Owns the way from a directory of histories to :class:`~tidelog.lab.results.Figures`; the meaning of each is in
the modules beside it. ``tidelog pipeline indicators`` computes the same figures for any number of rounds; a
test holds the two against each other.
"""

from pathlib import Path

from tidelog.lab.figures.availability import availability
from tidelog.lab.figures.consistency import consistency
from tidelog.lab.figures.events import TopicEvents, Windows
from tidelog.lab.figures.latency import latency, records_per_s
from tidelog.lab.figures.time_line import time_line
from tidelog.lab.figures.usage import broker_cpu_s, broker_rss_mb
from tidelog.lab.history_files import read_events
from tidelog.lab.results import Figures, TimeLine

__all__ = ["TopicEvents", "Windows", "figures", "figures_of"]


def figures_of(directory: Path, topic: str, windows: Windows) -> tuple[Figures, TimeLine]:
    """Of one topic in the round whose histories are in this directory."""
    events = TopicEvents(read_events(directory), topic)
    return figures(events, windows), time_line(events, windows)


def figures(events: TopicEvents, windows: Windows) -> Figures:
    found = consistency(events)
    verdict = found.verdict
    available = availability(events, windows)
    acknowledged, usage = events.of("acknowledged"), events.of("usage")
    return Figures(
        acknowledged=verdict.acknowledged,
        failed=found.failed,
        received=verdict.received - verdict.doubled,
        lost=verdict.lost,
        unacknowledged=found.unacknowledged,
        doubled=verdict.doubled,
        disordered=verdict.disordered,
        misplaced=verdict.misplaced,
        vanished=found.vanished,
        torn_transactions=found.torn_transactions,
        skipped=found.skipped,
        lost_commits=found.lost_commits,
        writes_stood_still_s=available.writes_s,
        reads_stood_still_s=available.reads_s,
        unserved_reads_s=available.unserved_reads_s,
        client_back_off_s=available.back_off_s,
        redundant_after_s=_redundant_after_s(events, windows),
        records_per_s=records_per_s(acknowledged, windows),
        before=latency(acknowledged, windows.steady_us, windows.fault_start_us),
        during=latency(acknowledged, windows.fault_start_us, windows.fault_end_us),
        after=latency(acknowledged, windows.fault_end_us, windows.end_us),
        broker_cpu_s=broker_cpu_s(usage),
        broker_rss_mb=broker_rss_mb(usage),
        harmed=found.harmed,
        examples=found.examples,
    )


def _redundant_after_s(events: TopicEvents, windows: Windows) -> float | None:
    """Without a fault, from the moment on when the last one would have been healed."""
    healed = events.of("healed")
    since_us = healed[-1].time_us if healed else windows.fault_end_us
    later = [event.time_us for event in events.of("redundant") if event.time_us >= since_us]
    return (later[0] - since_us) / 1e6 if later else None
