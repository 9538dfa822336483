"""What the brokers used during a round."""

from collections import defaultdict
from collections.abc import Sequence

from tidelog.lab.history import Event


def broker_cpu_s(samples: Sequence[Event]) -> float:
    """All brokers together, between the first and the last sample. A broker that was started again counts
    from its start on.
    """
    by_process: dict[tuple[int | None, str | None], list[int]] = defaultdict(list)
    first_of_broker: dict[int | None, str | None] = {}
    for event in samples:
        by_process[event.broker, event.name].append(event.cpu_us or 0)
        first_of_broker.setdefault(event.broker, event.name)
    total = 0
    for (broker, process), used in by_process.items():
        total += used[-1] - (used[0] if first_of_broker[broker] == process else 0)
    return total / 1e6


def broker_rss_mb(samples: Sequence[Event]) -> float:
    """Of the largest."""
    return max((event.bytes or 0 for event in samples), default=0) / 1e6
