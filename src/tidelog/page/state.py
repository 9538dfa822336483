"""What the browser is shown: facts → a flat table of JSON values. Pure.

=========== ==================================================================================================
key         value
=========== ==================================================================================================
cluster     its id, level and sentences, the controllers, counts
b/N         broker N
t/NAME      a topic: mode, promise, and per partition ``[leader, replicas, in-sync set, eligible]``
l/NAME      committed records that replicas lack: partition → broker → count; only what is behind
rates       records per second of every topic that gets some, and of all
=========== ==================================================================================================

Flat, so that a change is the keys that differ (:func:`changes`). Values are compared, not rendered, here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tidelog.client.topic_partitions import PartitionSeen, TopicSeen
from tidelog.page.facts import BrokerSeen, ClusterSeen, Facts, Figures, Pulse, Quorum, Replicas, is_offline
from tidelog.page.promises import BAD, LETTERS, OK, WARN, mode_words, places_of, promise
from tidelog.planner.faults import brokers_named
from tidelog.types import majority

State = dict[str, Any]

ACTIVE, VOTER = "active", "voter"
UP, FENCED, SILENT = "up", "fenced", "silent"
LIMITED = "The page's user may not describe the cluster: not all topics, groups and sizes may be here."


class Builder:
    """Keeps what it derived from a topic for as long as the topic and what surrounds it are the same."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._tallied: ClusterSeen | None = None
        self._tallies: dict[int, Tally] = {}

    def build(self, facts: Facts) -> State:
        """The whole table."""
        cluster = facts.cluster
        if cluster is None:
            return {"cluster": _not_seen(facts), "rates": {"total": 0, "topics": {}}}
        away = facts.away()
        if self._tallied is not cluster:
            self._tallied, self._tallies = cluster, tallies(cluster)
        state: State = {
            f"b/{each.broker}": _broker(facts, each, self._tallies.get(each.broker, Tally()))
            for each in cluster.brokers.values()
        }
        for name, topic in cluster.topics.items():
            state[f"t/{name}"] = self._topic(facts, name, topic, away)
            state[f"l/{name}"] = _lags(facts, name, topic)
        self._topics = {name: kept for name, kept in self._topics.items() if name in cluster.topics}
        state["rates"] = _rates(facts)
        state["cluster"] = _cluster(facts, cluster, state, away)
        return state

    def _topic(self, facts: Facts, name: str, topic: TopicSeen, away: frozenset[int]) -> dict[str, Any]:
        voters = facts.cluster.quorum.voters if facts.cluster is not None else ()
        of = (topic, facts.settings.get(name), away, voters)
        kept = self._topics.get(name)
        if kept is None or not (kept[0][0] is of[0] and kept[0][1] is of[1] and kept[0][2:] == of[2:]):
            kept = self._topics[name] = (of, _topic(facts, name, topic, away))
        return kept[1]


class Tally(NamedTuple):
    """The replicas of one broker, counted."""

    leads: int = 0
    replicas: int = 0
    behind: int = 0


def tallies(cluster: ClusterSeen) -> dict[int, Tally]:
    leads, holds, behind = Counter[int](), Counter[int](), Counter[int]()
    for topic in cluster.topics.values():
        for each in topic.partitions:
            leads[each.leader] += 1
            holds.update(each.replicas)
            if len(each.in_sync) < len(each.replicas):
                behind.update({*each.replicas} - {*each.in_sync})
    return {broker: Tally(leads[broker], holds[broker], behind[broker]) for broker in {*leads, *holds}}


def changes(before: State, after: State) -> dict[str, Any]:
    """Keys with their new values; None: the key is gone."""
    changed: dict[str, Any] = {
        key: value for key, value in after.items() if key not in before or before[key] != value
    }
    return changed | {key: None for key in before if key not in after}


def _not_seen(facts: Facts) -> dict[str, Any]:
    reasons = [pulse.reason for pulse in facts.pulses.values() if pulse.reason]
    return {
        "seen": False,
        "level": BAD,
        "sentences": [f"No broker answers{f': {reasons[0]}' if reasons else ''}."],
    }


# --- brokers ------------------------------------------------------------------------------------------------


def state_of(broker: BrokerSeen, pulse: Pulse) -> dict[str, str]:
    return {
        "state": SILENT if not pulse.responds else FENCED if broker.fenced else UP,
        "reason": pulse.reason,
    }


def _broker(facts: Facts, broker: BrokerSeen, tally: Tally) -> dict[str, Any]:
    number = broker.broker
    pulse = facts.pulses.get(number, Pulse(True))
    replicas = facts.replicas.get(number, Replicas())
    figures = facts.figures.get(number, Figures())
    quorum = facts.cluster.quorum if facts.cluster is not None else Quorum()
    is_active = number == quorum.leader and _controllers_decide(quorum, facts.silent())
    return {
        "id": number,
        "address": f"{broker.host}:{broker.port}" if broker.host else "",
        "rack": broker.rack,
        **state_of(broker, pulse),
        "controller": ACTIVE if is_active else VOTER if number in quorum.voters else "",
        # What the metadata still name as led by a broker that is away has no leader: it counts as offline.
        "leads": 0 if number in facts.away() else tally.leads,
        "replicas": tally.replicas,
        "behind": tally.behind,
        "failed": replicas.failed,
        "bytes": replicas.size_bytes,
        "disk_total": replicas.total_bytes,
        "disk_free": replicas.free_bytes,
        "cpu": round(figures.cpu, 2),
        "loop_lag_ms": round(figures.loop_lag_ms, 1),
        "memory": figures.memory_bytes,
        "requests_s": round(figures.requests_s, 1),
        "connections": figures.connections,
    }


# --- topics -------------------------------------------------------------------------------------------------


def _topic(facts: Facts, name: str, topic: TopicSeen, away: frozenset[int]) -> dict[str, Any]:
    places = places_of(facts, name)
    promised = promise(places, away, facts.frozen())
    terms = places[0].terms if places else None
    least = terms.copies if terms is not None else 1
    return {
        "name": name,
        "id": topic.topic_id,
        "internal": topic.is_internal or name.startswith("__"),
        "mode": terms.mode if terms is not None else "",
        "letter": LETTERS.get(terms.mode, "?") if terms is not None else "",
        "words": mode_words(terms) if terms is not None else "",
        "copies": least,
        "level": promised.level,
        "short": promised.short,
        "promise": list(promised.sentences),
        "offline": sum(is_offline(each, away) for each in topic.partitions),
        "under": sum(_is_under_replicated(each, away) for each in topic.partitions),
        "below": sum(_is_below(each, least, away) for each in topic.partitions),
        "partitions": [
            [each.leader, list(each.replicas), list(each.in_sync), list(each.eligible)]
            for each in topic.partitions
        ],
    }


def _is_under_replicated(partition: PartitionSeen, away: frozenset[int]) -> bool:
    return len(set(partition.in_sync) - away) < len(partition.replicas)


def _is_below(partition: PartitionSeen, least: int, away: frozenset[int]) -> bool:
    return not is_offline(partition, away) and len(set(partition.in_sync) - away) < least


def _lags(facts: Facts, name: str, topic: TopicSeen) -> dict[str, dict[str, int]]:
    lags: dict[str, dict[str, int]] = {}
    for number, replicas in facts.replicas.items():
        for index, (_, lag) in replicas.of_topics.get(name, {}).items():
            if lag > 0 and index < len(topic.partitions) and number != topic.partitions[index].leader:
                lags.setdefault(str(index), {})[str(number)] = lag
    return lags


def _rates(facts: Facts) -> dict[str, Any]:
    rates = {name: _rounded(rate) for name, rate in facts.rates.items() if rate > 0}
    return {"total": _rounded(sum(facts.rates.values())), "topics": rates}


def _rounded(rate: float) -> float:
    return round(rate, 1) if rate < 10 else round(rate)


# --- the cluster --------------------------------------------------------------------------------------------


def _cluster(
    facts: Facts, cluster: ClusterSeen, state: Mapping[str, Any], away: frozenset[int]
) -> dict[str, Any]:
    topics = [value for key, value in state.items() if key.startswith("t/")]
    counts = {
        "brokers": len(cluster.brokers),
        "up": len(cluster.brokers) - len(away & cluster.brokers.keys()),
        "topics": len(topics),
        "internal": sum(topic["internal"] for topic in topics),
        "partitions": sum(len(topic["partitions"]) for topic in topics),
        "offline": sum(topic["offline"] for topic in topics),
        "below": sum(topic["below"] for topic in topics),
        "under": sum(topic["under"] for topic in topics),
    }
    deciding = _controllers_decide(cluster.quorum, facts.silent())
    sentences = list(_sentences(facts, cluster, counts, deciding=deciding))
    bad = counts["offline"] or counts["below"] or not deciding
    limited = any(each.refused for each in facts.replicas.values())
    well = "Every replica that this user may see is in sync" if limited else "Every replica is in sync"
    return {
        "seen": True,
        "limited": limited,
        "id": cluster.cluster_id,
        "level": BAD if bad else WARN if sentences else OK,
        "sentences": (sentences or [f"{well}, and every broker answers."]) + [LIMITED] * limited,
        "controller": cluster.quorum.leader,
        "voters": list(cluster.quorum.voters),
        "deciding": deciding,
        "counts": counts,
    }


def _controllers_decide(quorum: Quorum, silent: frozenset[int]) -> bool:
    """Whether a majority of the controllers is there, as far as they are brokers, and one is active."""
    there = [voter for voter in quorum.voters if voter not in silent]
    if not quorum.voters:
        return True  # not told: an older Kafka
    return quorum.leader not in silent and quorum.leader >= 0 and len(there) >= majority(len(quorum.voters))


def _sentences(
    facts: Facts, cluster: ClusterSeen, counts: Mapping[str, int], *, deciding: bool
) -> Iterator[str]:
    """What is wrong, the worst first."""
    if counts["offline"]:
        yield f"{_partitions(counts['offline'])} no leader: writes to them wait."
    if counts["below"]:
        yield f"{_partitions(counts['below'])} too few replicas in sync for acks=all."
    if not deciding:
        yield "No active controller with a majority: leaders are not replaced, and nothing can be changed."
    silent = facts.silent() & cluster.brokers.keys()
    if silent:
        yield f"{_capital(brokers_named(silent))} {_verb(silent, 'does', 'do')} not answer."
    fenced = frozenset(each.broker for each in cluster.brokers.values() if each.fenced) - silent
    if fenced:
        who, verb = _capital(brokers_named(fenced)), _verb(fenced, "is", "are")
        yield f"{who} {verb} fenced: no session with the controllers."
    failed = frozenset(broker for broker, each in facts.replicas.items() if each.failed) - silent
    if failed:
        yield f"Logs of {brokers_named(failed)} cannot be written: a disk is full or failing."
    if counts["under"]:
        yield f"{_partitions(counts['under'])} replicas that are not in sync."


def _partitions(count: int) -> str:
    return "1 partition has" if count == 1 else f"{count} partitions have"


def _verb(brokers: frozenset[int], one: str, many: str) -> str:
    return one if len(brokers) == 1 else many


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
