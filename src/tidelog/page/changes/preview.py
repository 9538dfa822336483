"""What a change would mean: the promise of a topic before and after, by the planner. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.errors import TidelogError
from tidelog.page.changes.wishes import (
    DEFAULT,
    AlterTopic,
    Change,
    CreateTopic,
    DeleteTopic,
    Drain,
    Move,
    Produce,
    Promote,
    Unclear,
)
from tidelog.page.facts import Facts
from tidelog.page.promises import live_of, places_of, promise
from tidelog.planner.comparing import losses_of, resolved
from tidelog.planner.faults import Placement, listed
from tidelog.planner.promises import Terms
from tidelog.planner.terms import MODE, terms_of_values
from tidelog.planner.what_if import Place, leader_first, warning

REPLICAS_USUAL = 3  # of a topic for which the cluster decides
SHOWN_MAX = 5


class Preview(NamedTuple):
    """``weaker``: what has to be agreed to."""

    words: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    weaker: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def row(self) -> dict[str, Any]:
        return self._asdict()


def preview(facts: Facts, change: Change) -> Preview:
    match change:
        case CreateTopic():
            return _create(facts, change)
        case AlterTopic():
            return _alter(facts, change)
        case DeleteTopic():
            return _delete(facts, change)
        case Move():
            return _move(facts, change)
        case Promote():
            return _promote(facts, change)
        case Drain():
            return _drain(facts, change)
        case Produce():
            where = "chosen by its key" if change.partition == DEFAULT else str(change.partition)
            return Preview(f"One message is written to {change.name}, partition {where}, with acks=all.")
    raise Unclear("There is no preview of this change.")


def _create(facts: Facts, change: CreateTopic) -> Preview:
    cluster = facts.cluster
    if cluster is not None and change.name in cluster.topics:
        raise Unclear("There is a topic of this name already.")
    alive = sorted(set(cluster.brokers) - facts.away()) if cluster is not None else []
    replicas = min(REPLICAS_USUAL, max(len(alive), 1)) if change.replicas == DEFAULT else change.replicas
    terms = _terms(facts, "", dict(change.settings), (), replicas)
    where = Placement(tuple(alive[:replicas]), cluster.quorum.voters if cluster is not None else ())
    place = Place(
        change.name, 0, terms, where, where.replicas[0] if alive else -1, frozenset(alive[:replicas])
    )
    count = "the usual number of partitions" if change.partitions == DEFAULT else _count(change.partitions)
    after = promise([place], facts.away(), facts.frozen()).sentences if len(alive) >= replicas else ()
    return Preview(f"Topic {change.name} is created with {count}.", (), after)


def _alter(facts: Facts, change: AlterTopic) -> Preview:
    places = _places(facts, change.name)
    words = []
    for name, value in change.settings.items():
        words.append(f"{name} goes back to its default" if value is None else f"{name} becomes {value}")
    if change.partitions != DEFAULT:
        if change.partitions <= len(places):
            raise Unclear(f"The topic has {len(places)} partitions; there can only be more.")
        words.append(
            f"it has {change.partitions} partitions instead of {len(places)}: new records of a key may go to "
            "another partition"
        )
    chosen = {name: value for name, value in change.settings.items() if value is not None}
    unset = [name for name, value in change.settings.items() if value is None]
    after = [
        each._replace(terms=_terms(facts, change.name, chosen, unset, len(each.where.replicas)))
        for each in places
    ]
    return _compared(facts, f"Of topic {change.name}, {'; '.join(words)}.", places, after)


def _delete(facts: Facts, change: DeleteTopic) -> Preview:
    places = _places(facts, change.name)
    ends = facts.ends.get(change.name, {})
    records = f", up to {sum(ends.values()):,} records" if ends else ""
    return Preview(
        f"Topic {change.name} is deleted with {_count(len(places))}{records}.",
        promise(places, facts.away(), facts.frozen()).sentences,
        (),
        ("all of its records are gone; there is no way back",),
    )


def _move(facts: Facts, change: Move) -> Preview:
    place = _place(facts, change.name, change.partition)
    known = facts.cluster.brokers if facts.cluster is not None else {}
    if unknown := [each for each in change.replicas if each not in known]:
        raise Unclear(f"There is no broker {unknown[0]}; there are {listed(known)}.")
    if tuple(change.replicas) == _assigned(facts, change.name, change.partition):
        raise Unclear("The partition is there already.")
    old = frozenset(place.where.replicas)
    leader = place.leader if place.leader in change.replicas else change.replicas[0]
    terms = place.terms._replace(replicas=len(change.replicas))
    moved = place._replace(
        terms=terms,
        where=place.where._replace(replicas=leader_first(leader, [*change.replicas])),
        leader=leader,
        # The move is over when the new replicas have everything.
        in_sync=frozenset(change.replicas) - facts.away(),
    )
    new = [each for each in change.replicas if each not in old]
    copied = f" Broker {listed(new)} copies it first, and writes go on meanwhile." if new else ""
    where = (
        f"{change.name}-{change.partition} is on brokers {listed(change.replicas)} then, not on "
        f"{listed(sorted(old))}."
    )
    return _compared(facts, where + copied, [place], [moved])


def _promote(facts: Facts, change: Promote) -> Preview:
    place = _place(facts, change.name, change.partition)
    if change.to not in place.where.replicas:
        raise Unclear(f"Broker {change.to} has no replica; these brokers do: {listed(place.where.replicas)}.")
    if change.to in facts.away():
        raise Unclear(f"Broker {change.to} is not there; start it first.")
    if change.to == place.leader:
        raise Unclear(f"Broker {change.to} leads already.")
    if place.leader < 0 or place.leader in facts.away():
        raise Unclear(
            "There is no leader to copy from. `tidelog topic promote` says what would be lost, and asks."
        )
    words = (
        f"Broker {change.to} leads {change.name}-{change.partition} when it has what broker {place.leader} "
        "has. Nothing is lost."
    )
    moved = place._replace(
        where=place.where._replace(replicas=leader_first(change.to, [*place.where.replicas])),
        leader=change.to,
    )
    return _compared(facts, words, [place], [moved])


def _drain(facts: Facts, change: Drain) -> Preview:
    live = live_of(facts)
    if change.broker not in live.brokers:
        raise Unclear(f"There is no broker {change.broker}; there are {listed(live.brokers)}.")
    led = sum(each.leader == change.broker for each in live.places)
    if change.undo:
        return Preview(f"Broker {change.broker} leads its preferred partitions again.")
    words = (
        f"The {_count(led)} that broker {change.broker} leads get another leader. It keeps its replicas, and "
        "leads nothing until the drain ends or it restarts."
    )
    hint = warning(live, change.broker)
    return Preview(words, (), (), (hint.rstrip("."),) if hint else ())


# --- parts --------------------------------------------------------------------------------------------------


def _compared(facts: Facts, words: str, before: list[Place], after: list[Place]) -> Preview:
    away, frozen = facts.away(), facts.frozen()
    weaker = dict.fromkeys(
        loss for old, new in zip(before, after, strict=True) for loss in losses_of(old.terms, new.terms)
    )
    # The end of a sentence is about one partition of many; only what differs is worth reading.
    old, new = promise(before, away, frozen).sentences, promise(after, away, frozen).sentences
    return Preview(words, old, new, tuple(weaker)) if old != new or weaker else Preview(words)


def _terms(facts: Facts, topic: str, settings: dict[str, str], unset: Iterable[str], replicas: int) -> Terms:
    described = [
        {"name": name, "value": each.value, "set_by": "topic" if each.source == 1 else "default"}
        for name, each in facts.settings.get(topic, {}).items()
        if each.value is not None
    ]
    try:
        terms = terms_of_values(resolved(described, settings, set(unset)), replicas)
    except TidelogError as error:
        raise Unclear(f"{error.message.rstrip('.')}.") from None
    except (KeyError, ValueError):
        raise Unclear("There is no such mode, or no such value of a setting.") from None
    return terms._replace(kafka=any(MODE not in each for each in facts.settings.values()))


def _places(facts: Facts, topic: str) -> list[Place]:
    found = places_of(facts, topic)
    if not found:
        raise Unclear("There is no such topic, or its settings are not known yet.")
    return found


def _place(facts: Facts, topic: str, partition: int) -> Place:
    for each in _places(facts, topic):
        if each.partition == partition:
            return each
    raise Unclear("There is no such partition.")


def _assigned(facts: Facts, topic: str, partition: int) -> tuple[int, ...]:
    assert facts.cluster is not None
    return tuple(facts.cluster.topics[topic].partitions[partition].replicas)


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
