"""What happened, as sentences that say why: the differences between what was seen and what is seen now. Pure.

It works with every cluster that speaks the Kafka protocol, and knows nothing from before the page was
started. Partitions to which the same happened at once share an event.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from tidelog.client.topic_partitions import PartitionSeen
from tidelog.page.facts import NO_LEADER, ClusterSeen, Pulse, Settings
from tidelog.planner.faults import brokers_named, listed

MODE = "replication.mode"
PARTITIONS_NAMED = 6
# Why an in-sync set lost one broker, and why several.
DOWN = ("which is down", "which are down")
LATE = ("which did not keep up", "which did not keep up")
NOT_YET = ("until it has caught up with the leader", "until they have caught up with the leader")


class Event(NamedTuple):
    kind: str  # broker, controller, leader, sync, topic, mode, setting
    level: str  # ok, warn or bad
    text: str
    brokers: tuple[int, ...] = ()
    topic: str = ""

    def row(self, number: int, at_ms: int) -> dict[str, Any]:
        return {
            "id": number,
            "at": at_ms,
            "kind": self.kind,
            "level": self.level,
            "text": self.text,
            "brokers": list(self.brokers),
            "topic": self.topic,
        }


def pulse_changed(broker: int, before: Pulse | None, after: Pulse) -> Iterator[Event]:
    if before is None or before.responds == after.responds:
        return
    if after.responds:
        yield Event("broker", "ok", f"Broker {broker} answers again.", (broker,))
    else:
        yield Event("broker", "bad", f"Broker {broker} does not answer: {after.reason}.", (broker,))


def cluster_changed(before: ClusterSeen, after: ClusterSeen, silent: frozenset[int]) -> Iterator[Event]:
    """``silent``: brokers that do not answer now."""
    yield from _brokers(before, after)
    yield from _controllers(before, after, silent)
    gone = silent | {each.broker for each in after.brokers.values() if each.fenced}
    for name in before.topics.keys() - after.topics.keys():
        yield Event("topic", "warn", f"Topic {name} was deleted.", (), name)
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        if old is None:
            count = len(topic.partitions)
            plural = "" if count == 1 else "s"
            yield Event("topic", "ok", f"Topic {name} was created with {count} partition{plural}.", (), name)
        elif old is not topic and old.partitions != topic.partitions:
            yield from _partitions(name, old.partitions, topic.partitions, gone)


def settings_changed(topic: str, before: Settings, after: Settings) -> Iterator[Event]:
    for name, setting in after.items():
        old = before.get(name)
        if old is None or old.value == setting.value:
            continue
        kind = "mode" if name == MODE else "setting"
        yield Event(
            kind, "warn", f"{name} of {topic} changed from {old.value} to {setting.value}.", (), topic
        )


def _brokers(before: ClusterSeen, after: ClusterSeen) -> Iterator[Event]:
    for broker, seen in after.brokers.items():
        old = before.brokers.get(broker)
        if old is None:
            yield Event("broker", "ok", f"Broker {broker} joined the cluster.", (broker,))
        elif seen.fenced and not old.fenced:
            yield Event(
                "broker", "bad",
                f"Broker {broker} was fenced: its session with the controllers ended, so it leads nothing.",
                (broker,),
            )  # fmt: skip
        elif old.fenced and not seen.fenced:
            yield Event("broker", "ok", f"Broker {broker} has a session with the controllers.", (broker,))
    for broker in before.brokers.keys() - after.brokers.keys():
        yield Event("broker", "warn", f"Broker {broker} was removed from the cluster.", (broker,))


def _controllers(before: ClusterSeen, after: ClusterSeen, silent: frozenset[int]) -> Iterator[Event]:
    old, new = before.quorum, after.quorum
    if new.leader == old.leader:
        return
    if new.leader == NO_LEADER:
        yield Event("controller", "bad", "There is no active controller: nothing is decided.", (old.leader,))
    elif old.leader == NO_LEADER:
        yield Event("controller", "ok", f"Controller {new.leader} is active.", (new.leader,))
    else:
        why = f", because {old.leader} does not answer" if old.leader in silent else ""
        text = f"Controller {new.leader} took over from {old.leader}{why}."
        yield Event("controller", "warn", text, (old.leader, new.leader))


# --- partitions ---------------------------------------------------------------------------------------------

_Same = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A kind of change with its brokers, before and after."""


def _partitions(
    topic: str, before: tuple[PartitionSeen, ...], after: tuple[PartitionSeen, ...], gone: frozenset[int]
) -> Iterator[Event]:
    pairs = ((index, old, new) for index, (old, new) in enumerate(zip(before, after, strict=False)))
    yield from partitions_changed(topic, pairs, len(after), gone)
    if len(after) > len(before):
        yield Event("topic", "ok", f"Topic {topic} has {len(after)} partitions now.", (), topic)


def partitions_changed(
    topic: str, pairs: Iterable[tuple[int, PartitionSeen, PartitionSeen]], count: int, gone: AbstractSet[int]
) -> Iterator[Event]:
    """``pairs``: partitions before and after. ``count``: of the topic's partitions."""
    found: dict[_Same, list[int]] = {}
    for index, old, new in pairs:
        for same in _of_partition(old, new):
            kind, left, _ = same
            # Why a broker left that is down does not depend on the epoch.
            key = ("left", left, ()) if kind.startswith("left") and gone >= {*left} else same
            found.setdefault(key, []).append(index)
    for same, indexes in found.items():
        yield from _events(topic, same, named(indexes, count), gone)


def _of_partition(old: PartitionSeen, new: PartitionSeen) -> Iterator[_Same]:
    if old.leader != new.leader:
        yield "leader", (old.leader,), (new.leader,)
    elif old.epoch != new.epoch and new.leader != NO_LEADER and old.in_sync == new.in_sync:
        yield "epoch", (old.leader,), (new.leader,)
    if left := tuple(sorted({*old.in_sync} - {*new.in_sync})):
        # In another epoch, members may have to show again that they keep up.
        yield "left" if old.epoch == new.epoch else "left with its epoch", left, ()
    if joined := tuple(sorted({*new.in_sync} - {*old.in_sync})):
        yield "joined", joined, ()
    if set(old.replicas) != set(new.replicas):
        yield "replicas", tuple(old.replicas), tuple(new.replicas)


def _events(topic: str, same: _Same, where: str, gone: AbstractSet[int]) -> Iterator[Event]:
    kind, left, _ = same
    if not kind.startswith("left"):
        yield _event(topic, same, where, gone)
        return
    late = LATE if kind == "left" else NOT_YET
    for brokers, why in ((set(left) & gone, DOWN), (set(left) - gone, late)):
        if brokers:
            lost = f"{brokers_named(brokers)}, {why[len(brokers) > 1]}"
            text = f"The in-sync set of {topic}{where} lost {lost}."
            yield Event("sync", "warn", text, tuple(sorted(brokers)), topic)


def _event(topic: str, same: _Same, where: str, gone: AbstractSet[int]) -> Event:
    kind, old, new = same
    name = f"{topic}{where}"
    if kind == "leader":
        return _leader_event(topic, name, old[0], new[0], gone)
    if kind == "epoch":
        return Event("leader", "ok", f"Broker {new[0]} was elected again for {name}.", new, topic)
    if kind == "joined":
        are = "is" if len(old) == 1 else "are"
        text = f"{brokers_named(old).capitalize()} caught up and {are} in the in-sync set of {name}."
        return Event("sync", "ok", text, old, topic)
    text = f"The replicas of {name} are on brokers {listed(new)} now, not on {listed(old)}."
    return Event("topic", "ok", text, tuple({*old, *new}), topic)


def _leader_event(topic: str, name: str, old: int, new: int, gone: AbstractSet[int]) -> Event:
    if new == NO_LEADER:
        why = (
            f": broker {old} is down, and no other replica has taken over"
            if old in gone
            else f" for now: the others have lost touch with broker {old}"
        )
        return Event("leader", "bad", f"{name} has no leader{why}.", (old,), topic)
    if old == NO_LEADER:
        return Event("leader", "ok", f"Broker {new} leads {name}, which had no leader.", (new,), topic)
    why = f"because broker {old} is down" if old in gone else "though it is up: leadership was moved"
    return Event(
        "leader", "warn", f"Broker {new} took over {name} from broker {old}, {why}.", (old, new), topic
    )


def named(indexes: list[int], partitions: int) -> str:
    """``-0``, ``-0, -3`` or a count."""
    if len(indexes) == 1:
        return f"-{indexes[0]}"
    if len(indexes) == partitions:
        return f" (all {partitions} partitions)"
    if len(indexes) <= PARTITIONS_NAMED:
        return f" (partitions {listed(indexes)})"
    return f" ({len(indexes)} partitions)"
