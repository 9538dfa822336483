"""What would happen if: the planner's answers about the cluster as it was seen last. Pure."""

from collections.abc import Mapping
from typing import Any

from tidelog.page.facts import Facts
from tidelog.page.promises import live_of
from tidelog.planner.faults import Faults
from tidelog.planner.what_if import Change, Live, Worst, changes, summary, worst

KINDS = ("slow", "dead", "cut_off", "power_lost", "disk_lost")
PAIRS_OF_BROKERS_MAX = 12  # With more brokers, pairs are not tried: there would be too many.


def what_if(facts: Facts, faults: Faults, *, internal: bool = False) -> dict[str, Any]:
    every = live_of(facts)
    shown = tuple(each for each in every.places if internal or not each.topic.startswith("__"))
    live = every._replace(places=shown)
    found = changes(live, faults)
    return {
        "summary": summary(found) if found else "There are no topics.",
        "topics": [_topic(name, of_topic) for name, of_topic in _by_topic(found).items()],
        "worst_single": _worst(live, 1),
        "worst_pair": _worst(live, 2) if len(live.brokers) <= PAIRS_OF_BROKERS_MAX else None,
        "unknown": len(facts.cluster.topics) - len({each.topic for each in every.places})
        if facts.cluster
        else 0,
    }


def faults_of(query: Mapping[str, str]) -> Faults:
    """From the words of a request, such as ``dead=1,2``; ValueError: not broker numbers."""
    slow, dead, cut_off, power_lost, disk_lost = (_numbers(query.get(kind, "")) for kind in KINDS)
    return Faults(slow, dead, cut_off, power_lost, disk_lost)


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part)


def _by_topic(found: list[Change]) -> dict[str, list[Change]]:
    topics: dict[str, list[Change]] = {}
    for change in found:
        topics.setdefault(change.place.topic, []).append(change)
    return topics


def _topic(name: str, found: list[Change]) -> dict[str, Any]:
    losses = sorted({each.after.loss for each in found if each.after.loss})
    return {
        "name": name,
        "mode": found[0].place.terms.mode,
        "partitions": len(found),
        "writes_stop": sum(each.before.writes and not each.after.writes for each in found),
        "writes_stopped": sum(not each.before.writes for each in found),
        "reads_stop": sum(each.before.reads and not each.after.reads for each in found),
        "reads_stopped": sum(not each.before.reads for each in found),
        "below": sum(each.below_minimum for each in found),
        "may_lose": sum(bool(each.after.loss) for each in found),
        "losses": losses,
    }


def _worst(live: Live, size: int) -> dict[str, Any] | None:
    found: Worst | None = worst(live, size)
    if found is None:
        return None
    return {
        "brokers": list(found.brokers),
        "writes": found.writes,
        "reads": found.reads,
        "words": found.words(),
    }
