"""What happened before the page was started, and what only the metadata log knows: the log's decisions as
sentences. Pure.

The log may begin in the middle: of a partition that it has not named before, the first word is no change.
Events that the page sees for itself are not taken from here, except for unclean elections, which answers to
clients do not show.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from tidelog.client.topic_partitions import PartitionSeen
from tidelog.page.story import MODE, Event, named, partitions_changed

UNCLEAN = "unclean"


class Told(NamedTuple):
    at_ms: int
    event: Event


class Past:
    """Takes the decisions in their order."""

    def __init__(self) -> None:
        self._brokers: dict[int, bool] = {}  # whether each is fenced
        self._topics: dict[str, dict[int, PartitionSeen]] = {}
        self._whole = False
        self._epoch = -1
        self._tellers: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Event]]] = {
            "broker-registered": self._broker_registered,
            "broker-fencing-changed": self._broker_fencing_changed,
            "broker-unregistered": self._broker_unregistered,
            "topic-created": self._topic_created,
            "partitions-added": self._partitions_added,
            "topic-deleted": self._topic_deleted,
            "topic-config-changed": self._topic_config_changed,
        }

    def take(self, response: Mapping[str, Any]) -> list[Told]:
        self._whole = self._whole or bool(response.get("whole"))
        return [
            Told(at_ms, event)
            for (at_ms, epoch, _), decisions in groupby(response.get("decisions", ()), _moment)
            for event in self._decision(epoch, [record for each in decisions for record in each[3]])
        ]

    def _decision(self, epoch: int, records: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
        if epoch > self._epoch >= 0:
            yield Event("controller", "warn", f"Another controller became active (epoch {epoch}).")
        self._epoch = max(epoch, self._epoch)
        changed: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            kind = record["type"]
            if kind == "partition-changed":
                changed.setdefault(record["topic"], []).append(record)
            elif (tell := self._tellers.get(kind)) is not None:
                yield from tell(record)
        gone = {broker for broker, fenced in self._brokers.items() if fenced}
        for topic, of_topic in changed.items():
            yield from self._partitions(topic, of_topic, gone)

    # --- brokers ------------------------------------------------------------------------------------------

    def _broker_registered(self, record: Mapping[str, Any]) -> Iterator[Event]:
        broker = int(record["broker_id"])
        is_new = self._whole and broker not in self._brokers
        self._brokers[broker] = bool(record.get("fenced"))
        text = f"Broker {broker} joined the cluster." if is_new else f"Broker {broker} was started."
        yield Event("broker", "ok", text, (broker,))

    def _broker_fencing_changed(self, record: Mapping[str, Any]) -> Iterator[Event]:
        broker, fenced = int(record["broker_id"]), bool(record["fenced"])
        was_fenced, self._brokers[broker] = self._brokers.get(broker), fenced
        if fenced and record.get("session_lasts"):
            text = f"Broker {broker} was fenced: its connections closed."
            yield Event("broker", "bad", text, (broker,))
        elif fenced and was_fenced is not True:
            text = f"Broker {broker} was fenced: its session with the controllers ended, so it leads nothing."
            yield Event("broker", "bad", text, (broker,))
        elif record.get("leaving"):
            yield Event("broker", "warn", f"Broker {broker} is shutting down.", (broker,))
        elif was_fenced:
            text = f"Broker {broker} has a session with the controllers."
            yield Event("broker", "ok", text, (broker,))

    def _broker_unregistered(self, record: Mapping[str, Any]) -> Iterator[Event]:
        broker = int(record["broker_id"])
        self._brokers.pop(broker, None)
        yield Event("broker", "warn", f"Broker {broker} was removed from the cluster.", (broker,))

    # --- topics -------------------------------------------------------------------------------------------

    def _topic_created(self, record: Mapping[str, Any]) -> Iterator[Event]:
        name, assignments = str(record["name"]), record["assignments"]
        away = frozenset(record.get("away", ()))
        self._topics[name] = {index: _created(replicas, away) for index, replicas in enumerate(assignments)}
        plural = "" if len(assignments) == 1 else "s"
        text = f"Topic {name} was created with {len(assignments)} partition{plural}."
        yield Event("topic", "ok", text, (), name)

    def _partitions_added(self, record: Mapping[str, Any]) -> Iterator[Event]:
        name, away = str(record["topic"]), frozenset(record.get("away", ()))
        known = self._topics.setdefault(name, {})
        for replicas in record["assignments"]:
            known[len(known)] = _created(replicas, away)
        if name:
            text = f"Topic {name} got {len(record['assignments'])} more partitions."
            yield Event("topic", "ok", text, (), name)

    def _topic_deleted(self, record: Mapping[str, Any]) -> Iterator[Event]:
        name = str(record["topic"])
        self._topics.pop(name, None)
        if name:
            yield Event("topic", "warn", f"Topic {name} was deleted.", (), name)

    def _topic_config_changed(self, record: Mapping[str, Any]) -> Iterator[Event]:
        name = str(record["topic"])
        for setting, value in record["changes"].items() if name else ():
            what = f"was set to {value}" if value is not None else "was set back to its default"
            kind = "mode" if setting == MODE else "setting"
            yield Event(kind, "warn", f"{setting} of {name} {what}.", (), name)

    # --- partitions ---------------------------------------------------------------------------------------

    def _partitions(self, topic: str, records: list[Mapping[str, Any]], gone: set[int]) -> Iterator[Event]:
        known = self._topics.setdefault(topic, {})
        pairs: list[tuple[int, PartitionSeen, PartitionSeen]] = []
        unclean: dict[int, list[int]] = {}
        for record in records:
            index, before = int(record["partition"]), known.get(int(record["partition"]))
            after = known[index] = _changed(record, before)
            if before is not None:
                pairs.append((index, before, after))
            if record.get("unclean") and after.leader >= 0:
                unclean.setdefault(after.leader, []).append(index)
        if not topic:
            return  # deleted since, and its name is forgotten
        yield from partitions_changed(topic, pairs, len(known), gone)
        for leader, indexes in unclean.items():
            text = (
                f"Broker {leader} was elected uncleanly for {topic}{named(indexes, len(known))}: "
                "what only others had committed is given up."
            )
            yield Event(UNCLEAN, "bad", text, (leader,), topic)


def _moment(decision: tuple[int, int, int, list[Mapping[str, Any]]]) -> tuple[int, int, int]:
    """The same for decisions that share events: fifty partitions that a broker rejoins in one millisecond
    may be as many decisions. Between other decisions the order matters.
    """
    offset, at_ms, epoch, records = decision
    alone = any(each["type"] != "partition-changed" for each in records)
    return int(at_ms), int(epoch), int(offset) if alone else -1


def _created(replicas: Iterable[int], away: frozenset[int]) -> PartitionSeen:
    there = tuple(replica for replica in replicas if replica not in away)
    return PartitionSeen(there[0] if there else -1, 0, tuple(replicas), there)


def _changed(record: Mapping[str, Any], before: PartitionSeen | None) -> PartitionSeen:
    replicas = record.get("replicas")
    if replicas is None:
        replicas = before.replicas if before is not None else record["in_sync"]
    return PartitionSeen(
        int(record["leader"]),
        int(record["leader_epoch"]),
        tuple(replicas),
        tuple(record["in_sync"]),
        tuple(record.get("eligible", ())),
    )


def losses(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Event]:
    """What one broker has given up since the last look."""
    for partition, count in after.items():
        if count > before.get(partition, 0):
            lost = count - before.get(partition, 0)
            records = "record was" if lost == 1 else "records were"
            text = f"{partition}: {lost} {records} given up for those of another leader."
            yield Event(UNCLEAN, "bad", text, (), partition.rpartition("-")[0])
