"""One topic in full: settings with their meaning, where each partition begins and ends, sizes, producers."""

from collections.abc import Iterator
from typing import Any

from tidelog.config import TOPIC_SETTINGS
from tidelog.page.asking import offsets, settings
from tidelog.page.asking.link import Link, NotServed
from tidelog.page.facts import Facts, Settings

DESCRIBE_PRODUCERS = 61
SOURCES = {
    1: "this topic", 2: "its broker", 3: "all brokers", 4: "the broker's file", 5: "default", 6: "logger",
}  # fmt: skip
LINK_TIMEOUT_S = 3.0
PRODUCERS_SHOWN = 100


def explained(values: Settings) -> list[dict[str, Any]]:
    """Every setting with what it means. Those that were set come first."""
    rows = [
        {
            "name": name,
            "value": each.value,
            "source": SOURCES.get(each.source, ""),
            "set": each.source in (1, 2, 3, 4),
            "default": TOPIC_SETTINGS[name].default_text if name in TOPIC_SETTINGS else None,
            "meaning": TOPIC_SETTINGS[name].doc if name in TOPIC_SETTINGS else "",
            "unset": TOPIC_SETTINGS[name].unset if name in TOPIC_SETTINGS else "",
        }
        for name, each in sorted(values.items())
    ]
    return sorted(rows, key=lambda row: row["source"] != SOURCES[1])


def settings_of(facts: Facts, topic: str) -> list[dict[str, Any]] | str:
    """Of the first broker that answers; a sentence if there is none, or it refuses."""
    brokers, away = facts.cluster.brokers.values() if facts.cluster is not None else (), facts.away()
    for each in brokers:
        if each.broker in away:
            continue
        try:
            with Link(each.address, LINK_TIMEOUT_S) as link:
                found = settings.of_topics(link, [topic], None)
        except OSError:
            continue
        return explained(found[topic]) if topic in found else "The cluster does not tell these settings."
    return "No broker answers."


def positions(facts: Facts, topic: str) -> dict[str, Any]:
    """What is known of the partitions without asking: end offsets and sizes."""
    ends = facts.ends.get(topic, {})
    sizes: dict[str, dict[str, int]] = {}
    for broker, replicas in facts.replicas.items():
        for partition, (size, _) in replicas.of_topics.get(topic, {}).items():
            sizes.setdefault(str(partition), {})[str(broker)] = size
    return {"ends": {str(partition): end for partition, end in ends.items()}, "sizes": sizes}


def begins(facts: Facts, topic: str) -> dict[str, int]:
    """The first offset of each partition whose leader answers."""
    found: dict[str, int] = {}
    for address, partitions in _by_leader(facts, topic):
        try:
            with Link(address, LINK_TIMEOUT_S) as link:
                response = offsets.begins(link, [(topic, index) for index in partitions])
        except OSError:
            continue
        found |= {str(index): offset for (_, index), offset in response.items()}
    return found


def producers(facts: Facts, topic: str) -> list[dict[str, Any]]:
    """Idempotent and transactional producers, and where their open transactions begin."""
    rows: list[dict[str, Any]] = []
    for address, partitions in _by_leader(facts, topic):
        body = {"topics": [{"name": topic, "partition_indexes": partitions}]}
        try:
            with Link(address, LINK_TIMEOUT_S) as link:
                response = link.ask(DESCRIBE_PRODUCERS, body)
        except (NotServed, OSError):
            continue
        rows += [
            {
                "partition": int(partition.partition_index),
                "producer": int(each.producer_id),
                "epoch": int(each.producer_epoch),
                "sequence": int(each.last_sequence),
                "at": int(each.last_timestamp),
                "open_from": int(each.current_txn_start_offset),
            }
            for one in response.topics
            for partition in one.partitions
            for each in partition.active_producers
        ]
    return sorted(rows, key=lambda row: (row["open_from"] < 0, -row["at"]))[:PRODUCERS_SHOWN]


def _by_leader(facts: Facts, topic: str) -> Iterator[tuple[tuple[str, int], list[int]]]:
    cluster, away = facts.cluster, facts.away()
    seen = cluster.topics.get(topic) if cluster is not None else None
    if cluster is None or seen is None:
        return
    led: dict[int, list[int]] = {}
    for index, each in enumerate(seen.partitions):
        if each.leader in cluster.brokers and each.leader not in away:
            led.setdefault(each.leader, []).append(index)
    for leader, partitions in sorted(led.items()):
        yield cluster.brokers[leader].address, partitions
